"""Operations of many clients at once: each file one of them, in torch, in Triton where faster, and its gradient."""
