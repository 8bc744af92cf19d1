"""Name the functions of the language that take complex numbers."""

from __future__ import annotations

_MATHEMATICS = (
    "add subtract multiply divide true_divide power pow square negative positive reciprocal exp exp2 log "
    "log2 log10 log1p expm1 sqrt sin cos tan sinh cosh tanh sign arcsin asin arccos acos arctan atan "
    "arcsinh asinh arccosh acosh arctanh atanh abs absolute real imag conj conjugate angle complex bool "
    "len iscomplexobj isrealobj iscomplex isreal equal not_equal isnan isinf isfinite isclose allclose "
    "array_equal array_equiv real_if_close float_power sort_complex logical_and logical_or logical_xor "
    "logical_not"
)
_SUMS_AND_PRODUCTS = (
    "sum mean var std variance prod cumsum cumulative_sum cumulative_prod any all count_nonzero trace dot "
    "matmul vdot vecdot inner outer tensordot einsum kron cross multi_dot diff ediff1d convolve correlate "
    "polyadd polysub polymul polyder polyint poly polydiv roots matvec vecmat"
)
_LINEAR_ALGEBRA = (
    "solve inv cholesky det slogdet qr svd svdvals eigh eigvalsh eig eigvals matrix_rank pinv cond "
    "matrix_power norm vector_norm matrix_norm"
)
_SHAPES = (
    "reshape transpose permute permute_dims moveaxis rollaxis swapaxes matrix_transpose flip fliplr "
    "flipud rot90 roll ravel flatten squeeze expand_dims atleast_1d atleast_2d atleast_3d broadcast_to "
    "broadcast_arrays concatenate concat append stack hstack vstack dstack column_stack split array_split "
    "hsplit vsplit dsplit tile repeat diag diagflat diagonal tril triu pad meshgrid resize row_stack "
    "apply_over_axes put place put_along_axis diag_indices_from tril_indices_from triu_indices_from"
)
_SELECTION = (
    "where take take_along_axis nonzero flatnonzero argwhere item unstack unique unique_values unique_counts "
    "unique_inverse unique_all isin select delete vectorize map list compress extract trim_zeros "
    "reversed enumerate zip"
)
_CREATION = (
    "zeros ones full empty zeros_like ones_like full_like empty_like array copy asarray ascontiguousarray "
    "asfortranarray astype eye identity"
)
_TRANSFORMS = (
    "fft ifft rfft irfft hfft ihfft rfft2 irfft2 rfftn irfftn fft2 ifft2 fftn ifftn fftshift ifftshift"
)
_DERIVATIVES = "vjp jvp stop_gradient detach tree_map"

#: The functions that take complex arguments; any other refuses them.
TAKING_COMPLEX = frozenset(
    " ".join(
        (
            _MATHEMATICS,
            _SUMS_AND_PRODUCTS,
            _LINEAR_ALGEBRA,
            _SHAPES,
            _SELECTION,
            _CREATION,
            _TRANSFORMS,
            _DERIVATIVES,
        )
    ).split()
)
