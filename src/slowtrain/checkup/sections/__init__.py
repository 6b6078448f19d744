"""The sections of a checkup below its headline."""
