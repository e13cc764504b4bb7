"""Runs commands of this repository in a small virtual machine.

The machine has its own kernel, all of cgroup v2 (cpu, cpuset, memory, io) and root, even
if the host allows none of that. ``contents`` lists the files of the host that are needed.
``archive`` writes them as an initramfs. ``image`` caches the part that seldom changes, and
adds the working tree at each start. ``machine`` boots qemu and reads the serial console.
``guest-init`` is process 1 inside.

Every file has the same path inside and outside. So a virtual environment, an editable
install and the run paths of libraries work unchanged.
"""
