"""A small virtual machine to run commands of this repository in.

What it is for: another kernel than the host's, with all of cgroup v2 (cpu, cpuset,
memory, io) and root, whatever the host itself allows.

How it works: ``contents`` says which of the host's files are needed, ``archive``
writes them as an initramfs, ``image`` caches what seldom changes and adds the
working tree at each start, ``machine`` boots qemu and reads the serial console, and
``guest-init`` is process 1 inside.

One rule keeps it small: every file lies inside at the path it has outside. A virtual
environment, an editable install, compiled-in prefixes and run paths of libraries
then work without being touched.
"""
