package main

import (
	"fmt"
	"slices"
	"strings"
)

// A signature describes a function in the assembly. The function's full name is the field name, followed by the field
// width.
type signature struct{ name, width, params string }

// bytes returns the size of the arguments.
func (s signature) bytes() int {
	n, kind := 0, ""
	for _, p := range slices.Backward(strings.Split(s.params, ", ")) {
		if _, k, ok := strings.Cut(p, " "); ok { // otherwise p has the type of the next parameter
			kind = k
		}
		if n += 8; kind == "float32" {
			n -= 4
		}
	}
	return n
}

// arguments returns the names of the parameters, for a call with the same arguments.
func (s signature) arguments() string {
	names := strings.Split(s.params, ", ")
	for i, p := range names {
		names[i], _, _ = strings.Cut(p, " ")
	}
	return strings.Join(names, ", ")
}

const choice = `%s
	if best == avx512 {
		%[2]s512(%[3]s)
	} else {
		%[2]s256(%[3]s)
	}
}
`

// declarations returns the Go files for the functions of the assembly. The file for amd64 declares the functions. For
// each function <name><width>, except for panels, it also has a function <name>SIMD, which calls the version for this
// machine, or the only version. On other processors <name>SIMD panics.
func declarations(functions []signature) (amd64, other []byte) {
	amd64 = []byte(generated + "\npackage kernel\n")
	other = []byte(generated + "\n//go:build !amd64\n\npackage kernel\n")
	for _, s := range functions {
		amd64 = fmt.Appendf(amd64, "\n//go:noescape\nfunc %s%s(%s)\n", s.name, s.width, s.params)
		if s.width != widths[0].name || s.params == "p *panel" {
			continue
		}
		head := fmt.Sprintf("\nfunc %sSIMD(%s) {", s.name, s.params)
		if slices.Contains(functions, signature{s.name, widths[1].name, s.params}) {
			amd64 = fmt.Appendf(amd64, choice, head, s.name, s.arguments())
		} else {
			amd64 = fmt.Appendf(amd64, "%s %s%s(%s) }\n", head, s.name, s.width, s.arguments())
		}
		other = fmt.Appendf(other, "%s panic(noSIMD) }\n", head)
	}
	return amd64, other
}
