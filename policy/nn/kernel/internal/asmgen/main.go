// Asmgen writes the assembly of package kernel and its Go declarations. It has one description of every kernel, for
// AVX-512 and for AVX2, so that both do the same operations in the same order. Run go generate in the folder of package
// kernel.
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
	all, functions := map[string][]byte{}, []signature(nil)
	for _, f := range []struct {
		name string
		text *asm
	}{
		{"product_amd64.s", products()}, {"elementwise_amd64.s", elementwise()}, {"optimizer_amd64.s", optimizer()},
		{"transpose_amd64.s", transpose()}, {"columns_amd64.s", columns()}, {"transformer_amd64.s", transformer()},
	} {
		all[f.name] = f.text.Bytes()
		functions = append(functions, f.text.functions...)
	}
	all["asm_amd64.go"], all["asm_other.go"] = declarations(functions)
	return all
}
