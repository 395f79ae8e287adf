package hf

import "github.com/rlinf/rlinf/policy/lm"

// FileName is fileName, for tests.
var FileName = fileName

// LoadTensors loads tensors, which have the names of the folder's files, for tests.
func LoadTensors(dir string, want []lm.Tensor) error {
	f, err := openFolder(dir)
	if err != nil {
		return err
	}
	defer f.close()
	return f.load(want)
}
