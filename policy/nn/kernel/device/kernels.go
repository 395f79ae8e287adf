package device

import (
	"embed"
	"fmt"
)

//go:embed kernels/*.ptx
var texts embed.FS

// A kernel is an index in kernels.
type kernel int

const (
	productLarge kernel = iota
	productSmall
	productNarrow
	productDeep
	productFew
	gradientLarge
	gradientSmall
	gradientNarrow
	gradientDeep
	treePlain
	treeTransposed
	treePlainSmall
	treeTransposedSmall
	tanhForward
	reluForward
	expForward
	logForward
	tanhGradient
	reluGradient
	axpy
	scale
	logSoftmax
	normalize
	columnSum
	transpose
	copyColumns
	addColumns
	copyWindows
	addWindows
	adam
	squareSums
	rmsNorm
	rmsNormGrad
	rmsNormSums
	rotate
	swiglu
	swigluGrad
	embedTokens
	addEmbeddings
	copyRows
	addRows
	attend
	attendQueryGrad
	attendKeyGrad
	crossEntropy
	crossEntropyGrad
	largest
	numKernels
)

// modules are the files of PTX, and the kernels that they have.
var modules = []struct {
	file    string
	kernels map[kernel]string
}{
	{"product.ptx", map[kernel]string{productLarge: "product_large", productSmall: "product_small",
		productNarrow: "product_narrow", productDeep: "product_deep", productFew: "product_few",
		gradientLarge: "gradient_large", gradientSmall: "gradient_small", gradientNarrow: "gradient_narrow",
		gradientDeep: "gradient_deep", treePlain: "tree_plain", treeTransposed: "tree_transposed",
		treePlainSmall: "tree_small", treeTransposedSmall: "tree_transposed_small"}},
	{"elementwise.ptx", map[kernel]string{tanhForward: "tanh_forward", reluForward: "relu_forward",
		expForward: "exp_forward", logForward: "log_forward", tanhGradient: "tanh_gradient",
		reluGradient: "relu_gradient", axpy: "axpy", scale: "scale", logSoftmax: "log_softmax",
		normalize: "normalize"}},
	{"rows.ptx", map[kernel]string{columnSum: "column_sum", transpose: "transpose", copyColumns: "copy_columns",
		addColumns: "add_columns"}},
	{"windows.ptx", map[kernel]string{copyWindows: "copy_windows", addWindows: "add_windows"}},
	{"optimizer.ptx", map[kernel]string{adam: "adam", squareSums: "square_sums"}},
	{"transformer.ptx", map[kernel]string{rmsNorm: "rms_norm", rmsNormGrad: "rms_norm_grad",
		rmsNormSums: "rms_norm_sums", rotate: "rotate", swiglu: "swiglu", swigluGrad: "swiglu_grad",
		embedTokens:   "embed",
		addEmbeddings: "add_embeddings", copyRows: "copy_rows", addRows: "add_rows"}},
	{"attention.ptx", map[kernel]string{attend: "attend", attendQueryGrad: "attend_query_grad",
		attendKeyGrad: "attend_key_grad"}},
	{"entropy.ptx", map[kernel]string{crossEntropy: "cross_entropy", crossEntropyGrad: "cross_entropy_grad",
		largest: "largest"}},
}

// load loads all kernels.
func load(d Driver) (functions [numKernels]Function, err error) {
	for _, m := range modules {
		text, err := texts.ReadFile("kernels/" + m.file)
		if err != nil {
			return functions, err
		}
		var indices []kernel
		var names []string
		for k, name := range m.kernels {
			indices, names = append(indices, k), append(names, name)
		}
		loaded, err := d.Load(string(text), names)
		if err != nil {
			return functions, fmt.Errorf("load %s: %w", m.file, err)
		}
		for i, k := range indices {
			functions[k] = loaded[i]
		}
	}
	return functions, nil
}
