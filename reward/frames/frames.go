// Package frames answers: which images show success? A file of frames has images and labels, from which a classifier
// learns. It is a safetensors file with images, U8 [M,H,W,3], and labels, U8 [M], which are 1 for success and 0 for
// failure.
package frames

import (
	"bytes"
	"errors"
	"fmt"
	"hash/fnv"
	"io"

	"github.com/rlinf/rlinf/internal/durable"
	"github.com/rlinf/rlinf/tensor"
)

// A Set has labelled images.
type Set struct {
	Images tensor.Tensor // U8 [M,H,W,3]
	Labels []byte        // [M]: 0 or 1
	Hash   uint64        // hash of the files that Read has read
}

// Len returns the number of images.
func (s *Set) Len() int { return len(s.Labels) }

// Successes returns the number of images of success.
func (s *Set) Successes() int { return bytes.Count(s.Labels, []byte{1}) }

// Read returns the images of all files, one file after the other. The images must have the same size. Errors name the
// file.
func Read(paths []string) (*Set, error) {
	all, hash := &Set{}, fnv.New64a()
	var pixels []byte
	for _, path := range paths {
		b, err := durable.ReadFile(path, durable.NoSize)
		if err != nil {
			return nil, err
		}
		hash.Write(b)
		s, err := parse(b)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if all.Len() == 0 {
			all.Images = s.Images
		} else if !s.Images.At(0).SameShape(all.Images.At(0)) {
			return nil, fmt.Errorf("%s: images %v: expected the size of %s, %v", path, s.Images.Shape()[1:], paths[0],
				all.Images.Shape()[1:])
		}
		pixels, all.Labels = append(pixels, s.Images.U8()...), append(all.Labels, s.Labels...)
	}
	if all.Len() == 0 {
		return nil, errors.New("no images")
	}
	all.Images = tensor.FromU8(pixels, append([]int{all.Len()}, all.Images.Shape()[1:]...)...)
	all.Hash = hash.Sum64()
	return all, nil
}

// parse reads the content of a file.
func parse(b []byte) (s Set, err error) {
	d, _, err := tensor.ReadSafetensors(b)
	if err != nil {
		return s, fmt.Errorf("expected a safetensors file of images and labels (rlinf data frames): %w", err)
	}
	images, _ := d.Get("images")
	labels, _ := d.Get("labels")
	if images.DType() != tensor.U8 || images.Rank() != 4 || images.Dim(3) != 3 || images.Len() == 0 {
		return s, fmt.Errorf("images: %v: expected U8 [M H W 3] (rlinf data frames)", images)
	}
	if labels.DType() != tensor.U8 || labels.Rank() != 1 || labels.Len() != images.Dim(0) {
		return s, fmt.Errorf("labels: %v: expected U8 [%d], one of each image", labels, images.Dim(0))
	}
	for i, y := range labels.U8() {
		if y > 1 {
			return s, fmt.Errorf("labels: %d of image %d: expected 0 or 1", y, i)
		}
	}
	return Set{Images: images, Labels: labels.U8()}, nil
}

// Write writes s and the metadata to the file at path. Read can read the file.
func (s *Set) Write(path string, metadata map[string]string) error {
	var d tensor.Dict
	d.Set("images", s.Images)
	d.Set("labels", tensor.FromU8(s.Labels, len(s.Labels)))
	return durable.Write(path, func(w io.Writer) error { return tensor.WriteSafetensors(w, d, metadata) })
}
