// Package hf reads and writes the checkpoint folders of Hugging Face's transformers: config.json,
// weights as safetensors in one file or in shards, and the adapter folders of PEFT.
//
// ReadConfig checks the configuration, and Load checks names, shapes and types of all tensors
// before it reads weights. Weights in float32, bfloat16 and float16 become float32. Matrices are
// [out, in] in the files and [in, out] in package lm.
package hf
