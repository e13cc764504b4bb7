"""Boots a lab of virtual machines: nodes with a kernel each, systemd and all of cgroup v2.

``debian`` makes the image from Debian's packages alone, and ``opt`` the disk with this
working tree's cosched. Both are kept in the cache. ``plan`` names the nodes, ``machine``
starts their qemu, ``lab`` makes and ends a lab, ``remote`` runs commands in a node, and
``slurm`` configures Slurm there. ``guest`` has the files that the image brings in.

It is a script of the repository and no part of the package, because the machines run a
cosched that is built from the working tree.
"""
