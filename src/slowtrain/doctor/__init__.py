"""The sheet of ``slowtrain doctor``: gathers facts and judges them."""
