package algo

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"

	"github.com/rlinf/rlinf/tensor"
)

// Pictures are images of one size that stay encoded, as PNG or JPEG, until a batch needs them. If an observation in
// demonstrations has Pictures, its tensor is I32 [M]: the index of each transition's image.
type Pictures struct {
	shape []int // height, width, channels
	all   [][]byte
	bytes int
}

// NewPictures returns Pictures without images. shape is that of the observation, [height, width, channels], where
// channels is 1 or 3.
func NewPictures(shape []int) (*Pictures, error) {
	if len(shape) != 3 || shape[2] != 1 && shape[2] != 3 {
		return nil, fmt.Errorf("the observation is %v: expected [height, width, 1 or 3] for images", shape)
	}
	return &Pictures{shape: shape}, nil
}

// Add keeps an encoded image, and returns its index. It checks only the image's size, and does not decode the pixels.
// The caller must not change encoded afterwards.
func (p *Pictures) Add(encoded []byte) (int, error) {
	config, err := decodeConfig(encoded)
	if err != nil {
		return 0, err
	}
	if config.Height != p.shape[0] || config.Width != p.shape[1] {
		return 0, fmt.Errorf("the image has %d rows of %d pixels: expected %d rows of %d, as the environment shows",
			config.Height, config.Width, p.shape[0], p.shape[1])
	}
	p.all, p.bytes = append(p.all, encoded), p.bytes+len(encoded)
	return len(p.all) - 1, nil
}

// Bytes returns the approximate size of the encoded images in memory.
func (p *Pictures) Bytes() int { return p.bytes + 24*len(p.all) }

// Decode fills dst with the pixels of image i, in the shape of the observation.
func (p *Pictures) Decode(dst []byte, i int) error {
	if err := DecodeImage(dst, p.shape, p.all[i]); err != nil {
		return fmt.Errorf("image %d: %w", i, err)
	}
	return nil
}

func isPNG(encoded []byte) bool { return bytes.HasPrefix(encoded, []byte("\x89PNG")) }

func decodeConfig(encoded []byte) (image.Config, error) {
	switch {
	case isPNG(encoded):
		return png.DecodeConfig(bytes.NewReader(encoded))
	case bytes.HasPrefix(encoded, []byte("\xff\xd8")):
		return jpeg.DecodeConfig(bytes.NewReader(encoded))
	}
	return image.Config{}, fmt.Errorf("the image begins with %.8q: expected PNG or JPEG", encoded)
}

// DecodeImage fills dst with the pixels of an encoded image, which must have the given shape: height, width and 1 or 3
// channels. It ignores transparency.
func DecodeImage(dst []byte, shape []int, encoded []byte) error {
	if _, err := decodeConfig(encoded); err != nil {
		return err
	}
	decode := jpeg.Decode
	if isPNG(encoded) {
		decode = png.Decode
	}
	img, err := decode(bytes.NewReader(encoded))
	if err != nil {
		return err
	}
	box := img.Bounds()
	if box.Dy() != shape[0] || box.Dx() != shape[1] || len(dst) != shape[0]*shape[1]*shape[2] {
		return fmt.Errorf("%d rows of %d pixels: expected %v", box.Dy(), box.Dx(), shape)
	}
	at := 0
	for y := box.Min.Y; y < box.Max.Y; y++ {
		for x := box.Min.X; x < box.Max.X; x++ {
			if shape[2] == 1 {
				dst[at] = color.GrayModel.Convert(img.At(x, y)).(color.Gray).Y
				at++
				continue
			}
			var c color.NRGBA
			switch img := img.(type) { // these types need no allocation for each pixel
			case *image.RGBA:
				p := img.RGBAAt(x, y)
				c = color.NRGBA(p)
			case *image.NRGBA:
				c = img.NRGBAAt(x, y)
			case *image.YCbCr:
				p := img.YCbCrAt(x, y)
				c.R, c.G, c.B = color.YCbCrToRGB(p.Y, p.Cb, p.Cr)
			default:
				c = color.NRGBAModel.Convert(img.At(x, y)).(color.NRGBA)
			}
			dst[at], dst[at+1], dst[at+2] = c.R, c.G, c.B
			at += 3
		}
	}
	return nil
}

// Stored returns the fields of rollouts as demonstrations store them. A field whose name is a key of pictures becomes
// an index of an image.
func Stored(rollout []tensor.Field, pictures map[string]*Pictures) []tensor.Field {
	stored := make([]tensor.Field, len(rollout))
	for i, f := range rollout {
		if stored[i] = f; pictures[f.Name] != nil {
			stored[i] = tensor.Field{Name: f.Name, DType: tensor.I32, Shape: f.Shape[:2]}
		}
	}
	return stored
}
