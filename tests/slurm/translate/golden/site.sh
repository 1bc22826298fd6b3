#!/bin/bash
# Orlop: pod default/web-1. Written for sbatch; changing it changes nothing.
#SBATCH --job-name=default/web-1
#SBATCH --comment=orlop:c0ffee:6f1c
#SBATCH --account=chem
#SBATCH --nice=10
#SBATCH --partition=main
#SBATCH --qos=normal
#SBATCH --chdir=/home/ann/pod
#SBATCH --output=/home/ann/pod/slurm.out
#SBATCH --open-mode=append
#SBATCH --export=NIL
#SBATCH --no-requeue

[ -r /etc/profile ] && . /etc/profile  # defines `module`, where there is one
umask 077
export HOME=/home/ann
export ORLOP_KILL_WAIT=30
export PATH='/opt/my tools/bin:/usr/bin'

# The site's prologue.
module load apptainer
ulimit -c 0

python=/usr/bin/python3
[ -x "$python" ] || python=python3  # where nodes differ from the host Orlop runs on
exec "$python" -I /home/ann/.orlop/run/agent.pyz /home/ann/pod
