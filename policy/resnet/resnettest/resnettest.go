// Package resnettest answers: which weights does a test of residual networks use, where there are no trained ones? Each
// number follows from a name and an index, so that a program in another language has the same weights
// (algo/testdata/resnet_golden.py).
package resnettest

import (
	"errors"
	"hash/fnv"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/tensor"
)

// Numbers returns the function from an index to a number in [0, 1) that belongs to name.
func Numbers(name string) func(i int) float64 {
	h := fnv.New64a()
	h.Write([]byte(name))
	key := h.Sum64()
	return func(i int) float64 { // splitmix64 (Steele, Lea and Flood 2014)
		x := key + uint64(i+1)*0x9E3779B97F4A7C15
		x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
		x = (x ^ x>>27) * 0x94D049BB133111EB
		return float64((x^x>>31)>>40) / (1 << 24)
	}
}

// Fill sets x, a tensor of this name and shape, to numbers as in a network. fan is the number of inputs of an output,
// or 0 for a vector. Scales of norms are near 1.
func Fill(x []float32, name string, fan int) {
	number, middle, bound := Numbers(name), 0.0, 0.2
	if fan > 0 {
		bound = math.Sqrt(3 / float64(fan))
	} else if strings.HasSuffix(name, ".weight") || strings.HasSuffix(name, ".running_var") {
		middle = 1
	}
	for i := range x {
		x[i] = float32(middle + bound*(2*number(i)-1))
	}
}

// Weights returns the weights of resnet10 (with GroupNorm) or of resnet18, with torchvision's names and shapes.
func Weights(name string) (d tensor.Dict) {
	blocks, norms := 1, []string{".weight", ".bias"}
	if name == "resnet18" {
		blocks, norms = 2, append(norms, ".running_mean", ".running_var")
	}
	add := func(name string, shape ...int) {
		x, fan := tensor.New(tensor.F32, shape...), 0
		if len(shape) > 1 {
			fan = x.Len() / shape[0]
		}
		Fill(x.F32(), name, fan)
		d.Set(name, x)
	}
	conv := func(conv, norm string, out, in, size int) {
		add(conv+".weight", out, in, size, size)
		for _, part := range norms {
			add(norm+part, out)
		}
	}
	conv("conv1", "bn1", 64, 3, 7)
	in := 64
	for stage := range 4 {
		for block := range blocks {
			out, layer := 64<<stage, "layer"+strconv.Itoa(stage+1)+"."+strconv.Itoa(block)+"."
			conv(layer+"conv1", layer+"bn1", out, in, 3)
			conv(layer+"conv2", layer+"bn2", out, out, 3)
			if in != out {
				conv(layer+"downsample.0", layer+"downsample.1", out, in, 1)
			}
			in = out
		}
	}
	return d
}

// Folder returns a folder with the named file, which has the Weights of resnet10.
func Folder(t testing.TB, file string) string {
	t.Helper()
	dir := t.TempDir()
	f, err := os.Create(filepath.Join(dir, file))
	if err == nil {
		err = errors.Join(tensor.WriteSafetensors(f, Weights("resnet10"), nil), f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}
