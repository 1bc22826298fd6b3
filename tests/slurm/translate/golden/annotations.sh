#!/bin/bash
# Orlop: pod default/web-1. Written for sbatch; changing it changes nothing.
#SBATCH --job-name=default/web-1
#SBATCH --comment=orlop:c0ffee:6f1c
#SBATCH --cpus-per-task=1
#SBATCH --exclusive
#SBATCH --mail-user="Ann Example <ann@example.org>"
#SBATCH --nodes=2
#SBATCH --partition=main
#SBATCH --requeue
#SBATCH --chdir=/home/ann/pod
#SBATCH --output=/home/ann/pod/slurm.out
#SBATCH --open-mode=append
#SBATCH --export=NIL

umask 077
export HOME=/home/ann
export ORLOP_KILL_WAIT=30
export SLURM_MPI_TYPE=pmix
export PATH=/usr/bin:/bin
python=/usr/bin/python3
[ -x "$python" ] || python=python3  # where nodes differ from the host Orlop runs on
exec "$python" -I /home/ann/.orlop/run/agent.pyz /home/ann/pod
