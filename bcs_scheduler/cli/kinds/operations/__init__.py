"""Operations on workloads: apply, update, scale, roll back, delete, and waiting for them."""
