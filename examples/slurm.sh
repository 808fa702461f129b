#!/bin/bash
# Trains a run with as many jobs as the array has, each on one GPU:  sbatch examples/slurm.sh RUN
#
# RUN is made beforehand, on a login node too:  unbraid train ... --no-begin --out RUN
# A job that is preempted, or is near its limit of time, writes a checkpoint, ends with 130 and is
# queued again; what a job had that was killed is taken over by another.
#SBATCH --job-name=unbraid
#SBATCH --array=0-7
#SBATCH --gpus=1
#SBATCH --cpus-per-task=4
#SBATCH --time=04:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:USR1@120

unbraid work "$1" &
worker=$!
trap 'kill -USR1 "$worker"' USR1 TERM  # bash itself gets the signal: it is handed on

while kill -0 "$worker" 2>/dev/null; do
  wait "$worker"  # which a signal ends too
done
wait "$worker"  # and so only this says how the worker ended
code=$?
case "$code" in
  130 | 138) scontrol requeue "${SLURM_ARRAY_JOB_ID}_${SLURM_ARRAY_TASK_ID}" ;; # 138: at its start
esac
exit "$code"
