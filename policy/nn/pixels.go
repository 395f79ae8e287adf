package nn

// pixels converts frames of bytes to one image of numbers. The image has the channels of all frames.
type pixels[T Float] struct {
	frames  int
	frame   Image
	decimal *[256]T // the number for each byte
}

// newPixels returns pixels that map bytes linearly to numbers: 0 to span[0], and 255 to span[1].
func newPixels[T Float](frame Image, frames int, span [2]float64) pixels[T] {
	p := pixels[T]{frames: frames, frame: frame, decimal: new([256]T)}
	for b := range p.decimal {
		p.decimal[b] = T(span[0] + (span[1]-span[0])*(float64(b)/255))
	}
	return p
}

// shape returns the shape of the image of numbers.
func (p pixels[T]) shape() Image { return Image{p.frame.H, p.frame.W, p.frames * p.frame.C} }

// unpack sets dst, [H,W,frames·C], to the image in src, [frames,H,W,C].
func (p pixels[T]) unpack(dst []T, src []uint8) {
	if p.frames == 1 {
		dst = dst[:len(src)]
		decimal := p.decimal // a local variable is a third faster than the field
		for i, b := range src {
			dst[i] = decimal[b]
		}
		return
	}
	channels, step := p.frame.C, p.frames*p.frame.C
	for f := range p.frames {
		from := src[f*p.frame.Len() : (f+1)*p.frame.Len()]
		for at := f * channels; at < len(dst); at += step {
			for k, b := range from[:channels] {
				dst[at+k] = p.decimal[b]
			}
			from = from[channels:]
		}
	}
}
