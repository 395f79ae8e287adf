package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// The files in the tree are what the generator writes today.
func TestFilesAreCurrent(t *testing.T) {
	for name, want := range files() {
		got, err := os.ReadFile(filepath.Join("..", "..", name))
		if err != nil {
			t.Error(err)
		} else if !bytes.Equal(got, want) {
			t.Errorf("%s is not what asmgen writes: run go generate ./policy/nn/kernel", name)
		}
	}
}
