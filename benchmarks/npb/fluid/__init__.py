"""The three fluid benchmarks LU, SP and BT: the Navier-Stokes equations on a grid."""
