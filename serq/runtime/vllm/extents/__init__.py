"""KV blocks without ids: stretches of blocks of one prefix stand for the blocks, equal in everything else."""
