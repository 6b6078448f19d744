"""The headline, the verdict and the notes of a checkup."""
