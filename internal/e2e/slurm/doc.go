// Package slurm tests the batch scripts of scripts/slurm and the output of rlinf slurm. It runs
// both on the Slurm of two nodes that scripts/slurm/one-machine starts, under mpirun and srun, with
// Open MPI and MPICH. It holds only tests.
package slurm
