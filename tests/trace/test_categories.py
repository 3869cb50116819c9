"""The category table: names as engines write them, traps among them."""

from __future__ import annotations

import pytest

from campaign.errors import ConfigError
from campaign.trace.categories import CATEGORIES, bare_name, table

NAMES = {
    "ncclDevKernel_AllReduce_bf16_RING(ncclDevKernelArgsStorage<4096ul>)": "allreduce",
    "ncclSymkDevKernel_AllReduce_RSxLDMC_AGxSTMC_sum_bf16(ncclSymkDevWorkArgs4K)": "allreduce",
    "ncclKernel_AllReduce_RING_LL_Sum_half(ncclWorkElem)": "allreduce",
    "void vllm::cross_device_reduce_2stage<__nv_bfloat16, 8>(vllm::RankData*, int)": "allreduce",
    "void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(c10::BFloat16*)": "allreduce",
    "void vllm::mnnvl::twoshotAllreduceKernel<__nv_bfloat16>(int)": "allreduce",
    "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)": "comm_other",
    "void deep_ep::internode_ll::dispatch<true, 4>(void*)": "comm_other",
    "void marlin::Marlin<1125899906909960l, 128>(int4 const*)": "gemm",
    "void marlin_moe_wna16::Marlin<1125899906909960l, 128>(int4 const*)": "moe_gemm",
    "fused_moe_kernel_gptq_awq": "moe_gemm",
    "bmm_E4m3_E4m3_Fp32_t128x8x512u2_s4_et64x8_m64x8x32_cga1x1x1_16dp256b_TN_transOut_schedS_sm100a": "moe_gemm",
    "nvjet_sm90_tst_128x8_64x12_2x1_v_bz_TNT": "gemm",
    "void cublasLt::splitKreduce_kernel<32, 16, int, float>(cublasLt::cublasSplitKParams<float>)": "gemm",
    "void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cute::tuple<int> > >(Params)": "gemm",
    "void cutlass::device_kernel<cutlass::gemm::GemmUniversal<cutlass::gemm::GroupProblemShape<int> > >(P)": "moe_gemm",
    "void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<2> > >(Params)": "attention",
    "fmhaSm100aKernel_QkvE4m3OBfloat16H128PagedKvCausalP32VarSeqQ8Kv128StaticKeepsAbForGen": "attention",
    "void vllm::paged_attention_v1_kernel<__nv_bfloat16, (vllm::Fp8KVCacheDataType)0>(float*)": "attention",
    "kernel_unified_attention_2d": "attention",
    "void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16, (vllm::Fp8KVCacheDataType)0>(int)": "kv_cache",
    "std::enable_if<(((8)>(0)))&&vllm::_typeConvert<c10::BFloat16>::exists, void>::type "
    "vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>(c10::BFloat16*, long)": "rms_norm",
    "triton_red_fused__to_copy_add_mean_mul_pow_rsqrt_0": "rms_norm",
    "triton_red_fused_fused_add_rms_norm_moe_forward_0": "rms_norm",
    "triton_poi_fused_mul_silu_slice_0": "silu_mul",
    "void vllm::act_and_mul_kernel<c10::BFloat16, &(vllm::silu_kernel<c10::BFloat16>)>(c10::BFloat16*)": "silu_mul",
    "void vllm::rotary_embedding_kernel<c10::BFloat16, true>(long const*)": "rope",
    "void vllm::moe::topkGating<8, 128, 4>(float*)": "moe_router",
    "void fp32_router_gemm_kernel<float, 384, 8>(float*)": "moe_router",
    "void vllm::scaled_fp8_quant_kernel<c10::BFloat16>(float*)": "quantize",
    "_gumbel_sample_kernel": "sampling",
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, ArgMaxOps<float> > >(R)": "sampling",
    "Memcpy DtoH (Device -> Pinned)": "copy",
    "Memset (Device)": "copy",
    "triton_poi_fused_3": "compiled",
    "void my_company::secret_kernel<int>(int*)": "other",
    "c10d::allreduce_": "allreduce",
    "_c10d_functional::wait_tensor": "allreduce",
    "_C::cpu_fused_moe": "moe_gemm",
    "_C::onednn_mm": "gemm",
    "aten::addmm": "gemm",
    "vllm::unified_mla_attention_with_output": "attention",
    "_C::rotary_embedding": "rope",
}


@pytest.mark.parametrize("name", NAMES)
def test_category__of_names_as_they_are_written(name: str) -> None:
    assert CATEGORIES[table().category(name)] == NAMES[name]


def test_bare_name__loses_type_template_and_parameters() -> None:
    assert bare_name("void a::b<int, (x)1>(int*)") == "a::b"
    assert bare_name("std::enable_if<(((8)>(0)))&&a<int>::b, void>::type vllm::f<int>(int)") == "vllm::f"
    assert bare_name("void (anonymous namespace)::g<int>(int)") == "anonymous::g"
    assert bare_name("fused_moe_kernel") == "fused_moe_kernel"
    assert bare_name("") == ""


def test_table__extra_patterns_come_first() -> None:
    mine = table([("gemm", "secret_kernel")])
    assert CATEGORIES[mine.category("void my_company::secret_kernel<int>(int*)")] == "gemm"
    assert CATEGORIES[table().category("void my_company::secret_kernel<int>(int*)")] == "other"


def test_table__wrong_pairs_say_what_to_write() -> None:
    with pytest.raises(ConfigError, match="write one of: allreduce"):
        table([("gem", "x")])
    with pytest.raises(ConfigError, match="Write a Python pattern"):
        table([("gemm", "(")])


def test_table__waiting_is_no_call() -> None:
    assert not table().is_counted("_c10d_functional::wait_tensor")
    assert table().is_counted("c10d::allreduce_")
