"""Operations that take torch more than an expression."""
