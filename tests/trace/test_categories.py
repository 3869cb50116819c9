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


#: Names that reports and the binaries of engines tell, beside those above (category → names).
REPORTED = {
    "allreduce": [
        "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        "ncclDevKernel_AllReduce_bf16_TREE",
        "ncclSymkDevKernel_AllReduce_AGxLL_R_sum_bf16",
        "ncclSymkDevKernel_AllReduce_AGxLLMC_R_sum_bf16",
        "ncclSymkDevKernel_AllReduce_RSxLD_AGxST_sum_bf16",
        "ncclSymkDevKernel_AllReduce_RSxTmaLD_AGxTmaST_sum_bf16",
        "ncclKernel_AllReduce_RING_LL_Sum_half(ncclDevComm*, unsigned long, ncclWork*)",
        "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 2>(vllm::RankData*)",
        "void vllm::cross_device_reduce_2stage<half, 8>(x)",
        "void vllm::mnnvl::twoshotAllreduceKernel<half>(int)",
        "vllm::minimax_reduce_qk_rms_kernel_lamport<int>()",
        "vllm::minimax_reduce_rms_kernel_lamport<int>()",
        "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<x>(y)",
    ],
    "comm_other": [
        "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL",
        "ncclDevKernel_Broadcast_RING_LL",
        "ncclDevKernel_SendRecv",
        "ncclDevKernel_Generic",
        "vllm::cross_device_all_gather<half>",
        "vllm::cross_device_reduce_scatter<half>",
        "vllm::direct_dcp_a2a_kernel<int>",
        "void deep_ep::intranode::dispatch<x>(y)",
        "deep_ep::internode_ll::combine<1>",
    ],
    "gemm": [
        "nvjet_tst_64x8_64x16_4x1_v_bz_TNT",
        "void cublasLt::splitKreduce_kernel<32, 16, int>(x)",
        "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n",
        "void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<x>>(y)",
        "void cutlass::Kernel2<enable_sm89_to_sm90<cutlass::gemm::x>>(y)",
        "void marlin::Marlin<x>(y)",
        "void machete::machete_mm_kernel<x>()",
        "void gptq::gemm_half_q_half_gptq_4bit_kernel<x>()",
        "vllm::awq::gemm_forward_4bit",
        "sm90_fp8_gemm_1d2d_impl",
        "Cijk_Alik_Bljk_BBS_BH_x",
        "void deep_gemm::sm90_fp8_gemm_1d2d_impl<1>(x)",
    ],
    "moe_gemm": [
        "void marlin_moe_wna16::Marlin<x>(y)",
        "void vllm::moe_wna16_gemm_kernel<x>(y)",
        "_matmul_ogs_NNT_bf16xbf16xmxfp4_16x256x128x1",
        "batched_triton_kernel",
        "bmm_E4m3_E4m3E4m3_Fp32_t128x8x128",
        "bmm_Bfloat16_MxE2m1Bfloat16_Fp32_x",
    ],
    "moe_router": [
        "void vllm::moe::topkGating<8, 128>(x)",
        "void vllm::moe::grouped_topk_fused_kernel<x>()",
        "vllm::moe::grouped_topk_fused_small_expert_count_kernel<x>",
        "void vllm::moe::single_group_topk_kernel<x>",
        "vllm::moe::moe_align_block_size_kernel<int>",
        "vllm::moe::moe_align_block_size_small_batch_expert_kernel<int>",
        "vllm::moe::count_and_sort_expert_tokens_kernel<int>",
        "void vllm::moe::moe_sum_kernel<x>",
        "moe::dev::routing::routingIndicesClusterKernel",
        "moe::dev::finalize::finalizeKernelVecLoad",
        "_topk_forward",
        "_combined_routing_compute",
        "_combined_routing_memset",
        "_sum_bitmatrix_rows",
    ],
    "attention": [
        "void cutlass::device_kernel<flash::enable_sm90<flash::FlashAttnFwdSm90<x>>>(y)",
        "void cutlass::device_kernel<flash::FlashAttnFwdCombine<x>>(y)",
        "flash::prepare_varlen_num_blocks_kernel",
        "void flash::flash_fwd_splitkv_kernel<x>(flash::Flash_fwd_params)",
        "void flash::flash_fwd_splitkv_combine_kernel<x>(y)",
        "void sm90::decode::dense::flash_fwd_splitkv_mla_kernel<x>(y)",
        "flash_fwd_mla_combine_kernel<x>",
        "get_mla_metadata_kernel",
        "void cutlass::device_kernel<cutlass::fmha::kernel::Sm100FmhaMlaKernelTmaWarpspecialized<x>>(y)",
        "kernel_unified_attention_3d",
        "reduce_segments",
        "_fwd_grouped_kernel_stage1",
        "_fwd_kernel_stage2",
        "void vllm::merge_attn_states_kernel<x>(y)",
        "void flashinfer::BatchDecodeWithPagedKVCacheKernel<x>(y)",
        "_C::cpu_attention_with_kv_cache",
    ],
    "rms_norm": [
        "void vllm::rms_norm_kernel<c10::BFloat16>(x)",
        "std::enable_if<((8)>(0)), void>::type vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>(x)",
        "void vllm::rms_norm_static_fp8_quant_kernel<x>(y)",
        "vllm::rms_norm_dynamic_per_token_quant_kernel<x>",
        "void ck_tile::kentry<Rmsnorm2dFwd<x>>(y)",
        "_C::rms_norm",
    ],
    "rope": [
        "void vllm::rotary_embedding_kernel<x>(y)",
        "void tensorrt_llm::kernels::fusedQKNormRopeKernel<x>(y)",
    ],
    "silu_mul": [
        "void vllm::act_and_mul_kernel<c10::BFloat16, &(vllm::silu_kernel<c10::BFloat16>)>(int)",
        "void vllm::silu_and_mul_quant_kernel<x>(y)",
        "void vllm::swigluoai_and_mul_kernel<x>(y)",
        "_C::silu_and_mul",
    ],
    "kv_cache": [
        "void vllm::reshape_and_cache_kernel<x>(y)",
        "void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16, (vllm::Fp8KVCacheDataType)0>(x)",
        "void vllm::concat_and_cache_mla_kernel<x>(y)",
        "void vllm::concat_and_cache_mla_rope_fused_kernel<x>",
        "vllm::indexer_k_quant_and_cache_kernel<x>",
        "_C::cpu_attn_reshape_and_cache",
    ],
    "quantize": [
        "void vllm::scaled_fp8_quant_kernel<x>(y)",
        "vllm::scaled_fp8_quant_kernel_strided<x>",
        "void per_token_group_quant_8bit_kernel<x>(y)",
        "void vllm::cvt_fp16_to_fp4<x>(y)",
        "quantize_with_block_size",
    ],
    "sampling": [
        "_penalties_kernel",
        "_topk_topp_kernel",
        "vllm::apply_repetition_penalties_kernel<x>",
        "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, ArgMaxOps<float>>>(y)",
    ],
    "copy": [],
}


@pytest.mark.parametrize("category", REPORTED)
def test_category__of_names_from_reports(category: str) -> None:
    found = {name: CATEGORIES[table().category(name)] for name in REPORTED[category]}
    assert found == dict.fromkeys(REPORTED[category], category)


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
