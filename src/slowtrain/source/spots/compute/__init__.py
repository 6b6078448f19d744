"""Operations that surely cost too much."""
