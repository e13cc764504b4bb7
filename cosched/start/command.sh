#!/bin/sh
# setup.py makes a command of this file and isolated.py. sh runs the lines up to the next
# three quotes; for Python they are one text.
''':'
self=$0
case $self in
*/*) ;;
*) [ -e "$self" ] && self=./$self || self=$(command -v -- "$self") ;;
esac
[ -L "$self" ] && self=$(readlink -f -- "$self")
bin=${self%/*}
python=$bin/python3
# The installer has written its Python into the first line of a script.
if [ -r "$bin/cosched-python" ]; then
    { IFS= read -r python; IFS= read -r long; } < "$bin/cosched-python"
    case $python in
    "#!/bin/sh") python=${long#*exec? }; python=${python%%' "$0"'*} ;; # a long path
    *) python=${python#"#!"} ;;
    esac
    case $python in \"*\") python=${python#?}; python=${python%?} ;; esac
    [ -x "$python" ] || python=${python%% -*}
fi
if [ ! -x "$python" ]; then
    home=${bin%/*}
    if [ "$home" = /usr/lib/cosched ]; then
        remedy="install the package for this release: apt install --reinstall ./cosched_*.deb"
    elif [ ! -w "$home" ]; then
        remedy="ask its owner to install cosched with a Python that all users may run"
    elif [ -e "$home/pyvenv.cfg" ]; then
        remedy="in a clone of cosched: python3 -m venv --clear $home && $home/bin/pip install ."
    else
        remedy="in a clone of cosched: python3 -m pip install --force-reinstall ."
    fi
    echo "${0##*/}: no Python at $python; $remedy" >&2
    exit 127
fi
# sh leaves out variables whose names it does not allow, such as functions of bash, and this text
# changes some. isolated.py sets them again: each is a line, and \001 ends the lines of a value.
others=
IFS='
'
set -f
for one in $(tr '\000\n' '\n\001' < "/proc/$$/environ" 2> /dev/null); do
    case ${one%%=*} in
    *[!A-Za-z0-9_]* | [0-9]* | IFS | OPTIND | PWD | SHLVL | self | bin | python | long | home | \
        remedy | others | one)
        others=$others$one$IFS
        ;;
    esac
done
set +f
unset IFS
if [ ${#others} -gt 130000 ]; then # a variable cannot be longer than 128 KiB
    echo "${0##*/}: warning: ${others%%=*} and other variables that sh does not keep are" \
        "longer than 128 KiB together, so jobs do not get them; unset some" >&2
elif [ -n "$others" ]; then
    export COSCHED_OTHER_VARIABLES="$others"
fi
exec "$python" -I -X utf8 "$self" "$@"
'''
