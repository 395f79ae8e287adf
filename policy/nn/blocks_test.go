package nn

import (
	"fmt"
	"slices"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/tensor"
)

// slicesOf returns all slices of a tensor of this shape, and the whole.
func slicesOf(shape []int) []Slice {
	all := []Slice{{}}
	for axis, d := range shape {
		for from := range d + 1 {
			for to := from; to <= d; to++ {
				all = append(all, Slice{axis, from, to, d})
			}
		}
	}
	return all
}

// elements returns the indices of the whole tensor's elements that are in the slice, in order.
func elements(shape []int, s Slice) (in []int) {
	for e := range product(shape) {
		if s.Whole == 0 {
			in = append(in, e)
			continue
		}
		if i := e / product(shape[s.Axis+1:]) % shape[s.Axis]; s.From <= i && i < s.To {
			in = append(in, e)
		}
	}
	return in
}

func smallShapes() [][]int { return [][]int{{5}, {3, 4}, {4, 1}, {1, 3}, {2, 3, 4}} }

// The block of a slice has the elements of the slice in order. Within has the same elements in any range.
func TestBlocksOfSlices(t *testing.T) {
	for _, shape := range smallShapes() {
		for _, s := range slicesOf(shape) {
			in, b := elements(shape, s), s.Block(shape)
			for lo := range product(shape) + 1 {
				for hi := lo; hi <= product(shape); hi++ {
					var got, want []int
					b.Within(lo, hi, func(at, here, n int) {
						for i := range n {
							got = append(got, at+i, here+i)
						}
					})
					for here, e := range in {
						if lo <= e && e < hi {
							want = append(want, e, here)
						}
					}
					if fmt.Sprint(got) != fmt.Sprint(want) {
						t.Fatalf("slice %v of %v has %v in [%d,%d), want %v", s, shape, got, lo, hi, want)
					}
				}
			}
		}
	}
}

// Clip gives the elements of a range in order, in few blocks.
func TestClip(t *testing.T) {
	for _, shape := range smallShapes() {
		for _, s := range slicesOf(shape) {
			in, b := elements(shape, s), s.Block(shape).Moved(100, 3)
			for lo := range len(in) + 5 {
				for hi := lo; hi < len(in)+6; hi++ {
					got, want := map[int]int{}, map[int]int{}
					blocks := b.Clip(lo, hi)
					for _, c := range blocks {
						c.Within(0, 1000, func(at, here, n int) {
							for i := range n {
								got[here+i] = at + i
							}
						})
					}
					for i, e := range in {
						if lo <= i+3 && i+3 < hi {
							want[i+3-lo] = e + 100
						}
					}
					if fmt.Sprint(got) != fmt.Sprint(want) || len(blocks) > 3 {
						t.Fatalf("slice %v of %v has %v in [%d,%d), want %v", s, shape, blocks, lo, hi, want)
					}
				}
			}
		}
	}
}

// Overlap of two slices of a tensor, along any axes, gives the elements that both have.
func TestOverlap(t *testing.T) {
	for _, shape := range smallShapes() {
		for _, a := range slicesOf(shape) {
			for _, b := range slicesOf(shape) {
				inA, inB := elements(shape, a), elements(shape, b)
				got, want := map[[2]int]bool{}, map[[2]int]bool{}
				Overlap(a.Block(shape), b.Block(shape), func(x, y, n int) {
					for i := range n {
						got[[2]int{x + i, y + i}] = true
					}
				})
				for x, e := range inA {
					for y, f := range inB {
						if e == f {
							want[[2]int{x, y}] = true
						}
					}
				}
				if fmt.Sprint(got) != fmt.Sprint(want) {
					t.Fatalf("%v and %v of %v have %v in common, want %v", a, b, shape, got, want)
				}
			}
		}
	}
}

// Common of two slices along an axis gives the elements that both have.
func TestCommon(t *testing.T) {
	for _, shape := range smallShapes() {
		for _, a := range slicesOf(shape) {
			for _, b := range slicesOf(shape) {
				if a.Whole > 0 && b.Whole > 0 && a.Axis != b.Axis {
					continue
				}
				inA, inB := elements(shape, a), elements(shape, b)
				want := slices.DeleteFunc(inA, func(e int) bool { return !slices.Contains(inB, e) })
				c, any := a.Common(b)
				if any != (len(want) > 0) || any && !slices.Equal(elements(shape, c), want) {
					t.Fatalf("%v and %v of %v have %v in common (%v), want the elements %v", a, b, shape, c, any, want)
				}
			}
		}
	}
}

// A block in bytes that was moved covers the bytes of its elements.
func TestBlockInOtherUnits(t *testing.T) {
	b := Slice{1, 1, 3, 4}.Block([]int{2, 4}).Moved(100, 7).Times(4)
	if want := (Block{At: 404, Here: 28, Len: 8, Stride: 16, Count: 2}); b != want {
		t.Errorf("%+v, want %+v", b, want)
	}
}

// Blocks of a part of a network give the places of its fields in the parameters of the whole network.
func TestBlocksOfParams(t *testing.T) {
	whole, part := new(Params[float32]), new(Params[float32])
	for _, p := range []*Params[float32]{whole, part} {
		p.Group("actor")
	}
	whole.Add("first", 3)
	whole.Add("up", 5, 40)
	whole.Add("norm", 7)
	part.Add("up", 5, 10)
	part.Cut("up", Slice{Axis: 1, From: 20, To: 30, Whole: 40})
	part.Add("norm", 7)
	for _, p := range []*Params[float32]{whole, part} {
		test.OK(t, p.Alloc(tensor.Heap))
	}
	for i := range whole.Data {
		whole.Data[i] = float32(i)
	}
	for _, b := range part.Blocks(whole) {
		b.Within(0, len(whole.Data), func(at, here, n int) { copy(part.Data[here:here+n], whole.Data[at:]) })
	}
	for i := range 5 {
		for j := range 10 {
			if got, want := part.Of(0)[i*10+j], whole.Of(1)[i*40+20+j]; got != want {
				t.Errorf("up[%d,%d] is %v, want %v", i, j, got, want)
			}
		}
	}
	if got, want := fmt.Sprint(part.Of(1)), fmt.Sprint(whole.Of(2)); got != want {
		t.Errorf("norm is %v, want %v", got, want)
	}
	part.Cut("norm", Slice{From: 0, To: 7, Whole: 9})
	defer func() {
		if recover() == nil {
			t.Error("a slice of another network is accepted")
		}
	}()
	part.Blocks(whole)
}
