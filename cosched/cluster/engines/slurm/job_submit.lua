-- Refuses at submission a job whose comment names mates in a wrong form. The controller
-- does the same soon after: it holds such a job, with the reason in its AdminComment.
--
-- slurm.conf: JobSubmitPlugins=lua; this file lies beside slurm.conf as job_submit.lua.
-- A site that has such a file calls cosched_refuses from its own slurm_job_submit.

-- Write "hold" if slurm.cannot_yield of domain.toml is that: then jobs of srun and salloc
-- may have mates.
local CANNOT_YIELD = "refuse"

local FORMS = {
    "^mate=[%w][%w._-]*@[%w][%w._-]*$",
    "^within=[%d.]+%a+$",
    "^after=[%w][%w._-]*$",
    "^delay=[%d.]+%a+$",
    "^token=[%w._-]+$",
}

local function fits(part)
    for _, form in ipairs(FORMS) do
        if part:match(form) then
            return true
        end
    end
    return false
end

-- Returns one line about what is wrong with the job, or nil.
function cosched_refuses(job)
    local comment = job.comment
    if comment == nil or comment:sub(1, 8) ~= "cosched:" then
        return nil
    end
    local is_batch = job.script ~= nil and job.script ~= ""
    if CANNOT_YIELD == "refuse" and (not is_batch or job.requeue == 0) then
        return "a job with mates must be able to wait again: use sbatch, with --requeue"
    end
    if job.array_inx ~= nil then
        return "a task of a job array cannot have mates"
    end
    local named = false
    for part in (comment:sub(9) .. ","):gmatch("(.-),") do
        if not fits(part) then
            return "'" .. part .. "' is none of mate=GROUP@DOMAIN, within=TIME, "
                .. "after=DOMAIN, delay=TIME, token=WORD"
        end
        named = named or part:sub(1, 5) == "mate="
    end
    if not named then
        return "name at least one mate, as in mate=climate@eureka"
    end
    return nil
end

function slurm_job_submit(job, partitions, uid)
    local line = cosched_refuses(job)
    if line ~= nil then
        slurm.log_user("cosched: " .. line)
        return slurm.ERROR
    end
    return slurm.SUCCESS
end

function slurm_job_modify(job, record, partitions, uid)
    return slurm.SUCCESS
end
