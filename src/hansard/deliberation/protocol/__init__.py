"""The rules of a deliberation as a pure state machine: no clock, no disk, no chance, no model."""
