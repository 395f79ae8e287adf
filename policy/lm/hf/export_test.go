package hf

import "github.com/rlinf/rlinf/policy/lm"

// FileName is fileName, for tests.
var FileName = fileName

// LoadTensors loads tensors, which have the names of the folder's files, for tests.
func LoadTensors(dir string, want []lm.Weight) error {
	f := newFolder()
	defer f.close()
	if err := f.openAll(dir); err != nil {
		return err
	}
	return f.load(want)
}
