package checkpoint

import (
	"fmt"
	"path/filepath"
	"slices"

	"github.com/rlinf/rlinf/tensor"
)

// A TensorDifference is a tensor that differs between two checkpoints.
type TensorDifference struct {
	File, Name string
	What       string // the difference, such as "element 3 is 0.25, and 0.5"
}

func (d TensorDifference) String() string { return fmt.Sprintf("%s: %s: %s", d.File, d.Name, d.What) }

// Compare returns the tensors that differ between two checkpoints, and the files that only one of them has. It compares
// bytes, and reads tensors in pieces. Files without tensors do not count.
func Compare(one, other *Checkpoint) (all []TensorDifference, err error) {
	files := slices.Concat(one.Files(), other.Files())
	slices.Sort(files)
	for _, file := range slices.Compact(files) {
		switch {
		case filepath.Ext(file) != ".safetensors":
		case !slices.Contains(one.Files(), file) || !slices.Contains(other.Files(), file):
			all = append(all, TensorDifference{File: file, What: "only one of the checkpoints has this file"})
		default:
			found, err := compareFiles(filepath.Join(one.Dir, file), filepath.Join(other.Dir, file))
			if err != nil {
				return nil, err
			}
			for _, d := range found {
				d.File = file
				all = append(all, d)
			}
		}
	}
	return all, nil
}

func compareFiles(one, other string) (all []TensorDifference, err error) {
	a, err := OpenTensors(one)
	if err != nil {
		return nil, err
	}
	defer a.Close()
	b, err := OpenTensors(other)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	for i, f := range a.Fields {
		j := b.Index(f.Name)
		what := ""
		switch {
		case j < 0:
			what = "only the first checkpoint has it"
		case f.DType != b.Fields[j].DType || !slices.Equal(f.Shape, b.Fields[j].Shape):
			what = fmt.Sprintf("is %v%v, and %v%v", f.DType, f.Shape, b.Fields[j].DType, b.Fields[j].Shape)
		default:
			if what, err = compareTensors(a, b, i, j); err != nil {
				return nil, err
			}
		}
		if what != "" {
			all = append(all, TensorDifference{Name: f.Name, What: what})
		}
	}
	for _, f := range b.Fields {
		if a.Index(f.Name) < 0 {
			all = append(all, TensorDifference{Name: f.Name, What: "only the second checkpoint has it"})
		}
	}
	return all, nil
}

// compareTensors describes the first difference between tensor i of a and tensor j of b. It returns "" if they are
// equal.
func compareTensors(a, b *TensorFile, i, j int) (what string, err error) {
	field, at := a.Fields[i], 0
	there := make([]byte, min(pieceBytes, field.Bytes()))
	err = a.EachPiece(i, func(here []byte) error {
		there := there[:len(here)]
		if err := b.ReadTensor(j, there, at); err != nil {
			return err
		}
		if index, how := tensor.FirstDifference(field.DType, here, there); index >= 0 && what == "" {
			what = fmt.Sprintf("element %d is %s", at/field.DType.Size()+index, how)
		}
		at += len(here)
		return nil
	})
	return what, err
}
