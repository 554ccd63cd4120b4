"""The names that fields can't have without `shadow`, frozen: a program of a user may use every other name."""

REFUSED = """
abs abs_ acos acos_ add add_ addcdiv addcdiv_ addcmul addcmul_ all all_gather all_reduce amax amin any apply
apply_ arecv as_tensor asend asin asin_ atan atan_ atleast_1d atleast_2d atleast_3d auto_batch_size_
auto_device_ backward batch_dims bfloat16 bitwise_and bitwise_not bitwise_or bitwise_xor bool broadcast
broadcast_to bytes cat cat_from_tensordict cat_tensors ceil ceil_ chunk clamp clamp_ clamp_max clamp_max_
clamp_min clamp_min_ clear clear_device_ clear_refs_for_compile_ clone complex128 complex32 complex64
consolidate contiguous copy copy_ copy_at_ cos cos_ cosh cosh_ cpu create_nested cuda cummax cummin data
data_ptr del_ densify detach detach_ dim div div_ double dtype dumps empty eq erf erf_ erfc erfc_ example
exclude exp exp_ expand expand_as expm1 expm1_ extend fill_ filter_empty_ filter_non_tensor_data flatten
flatten_keys flip fliplr flipud float float16 float32 float64 floor floor_ floor_divide frac frac_ from_any
from_arrow from_consolidated from_csv from_dataclass from_dict from_dict_instance from_h5 from_hf from_json
from_list from_module from_modules from_namedtuple from_pandas from_parquet from_pytree from_remote_init
from_schema from_struct_array from_tensordict from_tuple from_zarr fromkeys gather gather_and_stack ge get
get_at get_item_shape get_non_tensor grad gt half init_remote int int16 int32 int64 int8 irecv is_consolidated
is_contiguous is_cpu is_cuda is_empty is_floating_point is_memmap is_meta is_non_tensor is_shared isend isfinite
isinf isnan isneginf isposinf isreal items keys lazy_stack le lerp lerp_ lgamma lgamma_ load load_ load_memmap
load_memmap_ load_state_dict lock_ log log10 log10_ log1p log1p_ log2 log2_ log_ logical_and logical_not
logical_or logical_xor logsumexp lt make_memmap make_memmap_from_storage make_memmap_from_tensor map map_iter
masked_fill masked_fill_ masked_select max maximum maximum_ maybe_dense_stack mean memmap memmap_ memmap_like
memmap_refresh_ merge min minimum minimum_ mod moveaxis movedim mul mul_ named_apply nanmean nansum narrow
ndimension ne neg neg_ new_empty new_full new_ones new_tensor new_zeros non_tensor_items norm numel numpy pack
pad permute pick pin_memory pin_memory_ pop popitem pow pow_ prod qint32 qint8 quantile quint4x2 quint8
reciprocal reciprocal_ record_stream recv reduce refine_names rename rename_ rename_key_ rename_keys repeat
repeat_interleave replace requires_grad requires_grad_ reshape roll rot90 round round_ rsqrt rsqrt_ rsub save
saved_path scatter select send set set_ set_at_ set_non_tensor setdefault share_memory_ sigmoid sigmoid_ sign
sign_ sin sin_ sinh sinh_ size softmax sorted_keys split split_keys sqrt sqrt_ squeeze stack
stack_from_tensordict stack_tensors state_dict std sub sub_ sum swapaxes swapdims tan tan_ tanh tanh_
tensor_split tile to to_arrow to_csv to_dict to_h5 to_hf to_json to_lazystack to_mds to_module to_namedtuple
to_padded_tensor to_pandas to_parquet to_polars to_pytree to_struct_array to_tensordict to_zarr tolist transpose
trunc trunc_ type uint16 uint32 uint64 uint8 unbind unflatten unflatten_keys unlock_ unsqueeze update update_
update_at_ values var view where zero_ zero_grad
"""
