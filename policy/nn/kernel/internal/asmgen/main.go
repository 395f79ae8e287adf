// Asmgen writes the assembly of package kernel from one description of every kernel, for AVX-512 and for AVX2,
// so that both do the same operations in the same order. Run it by go generate in the folder of package kernel.
package main

import (
	"fmt"
	"os"
)

func main() {
	for name, text := range files() {
		if err := os.WriteFile(name, text, 0o666); err != nil {
			fmt.Fprintln(os.Stderr, "asmgen:", err)
			os.Exit(1)
		}
	}
}

// files returns the generated files by name.
func files() map[string][]byte {
	return map[string][]byte{
		"product_amd64.s":     products(),
		"elementwise_amd64.s": elementwise(),
		"optimizer_amd64.s":   optimizer(),
		"transpose_amd64.s":   transpose(),
		"columns_amd64.s":     columns(),
		"transformer_amd64.s": transformer(),
	}
}
