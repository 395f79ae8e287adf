// Windows that slide over images, for convolutions. An image is [h,w,c]. A window has size·size pixels, and the windows
// of an image are [out_h,out_w], stride pixels apart. An image has a frame of pad pixels of zeros.
#include "kernel.h"

// copy_windows sets to, count elements of [n,out_h,out_w,size,size,c], to the windows of the images from.
KERNEL copy_windows(out to, in from, long count, int h, int w, int c, int out_h, int out_w, int size, int stride,
	int pad) {
	const long i = ELEMENT;
	if (i >= count)
		return;
	const int line = size * c, at = (int)(i % (size * line)), in_line = at % line;
	const long window = i / (size * line), image = window / (out_h * out_w);
	const int place = (int)(window % (out_h * out_w));
	const int y = place / out_w * stride - pad + at / line;
	const int x = place % out_w * stride - pad + in_line / c;
	to[i] = y < 0 || y >= h || x < 0 || x >= w ? 0.0f : from[((image * h + y) * w + x) * c + in_line % c];
}

// first_window returns the first of the windows that have the given row or column of an image.
INLINE int first_window(int at, int size, int stride, int pad) {
	const int beyond = at + pad - size;
	return beyond < 0 ? 0 : beyond / stride + 1;
}

// add_windows sets to, count elements of the images [n,h,w,c], to the sums of the elements of windows that are copies
// of them. The windows are added in order.
KERNEL add_windows(out to, in from, long count, int h, int w, int c, int out_h, int out_w, int size, int stride,
	int pad) {
	const long i = ELEMENT;
	if (i >= count)
		return;
	const int channel = (int)(i % c), x = (int)(i / c % w), y = (int)(i / c / w % h);
	const long image = i / c / w / h;
	float sum = 0.0f;
	for (int oy = first_window(y, size, stride, pad); oy < out_h && oy * stride <= y + pad; oy++)
		for (int ox = first_window(x, size, stride, pad); ox < out_w && ox * stride <= x + pad; ox++) {
			const long pixel = ((image * out_h + oy) * out_w + ox) * size + y + pad - oy * stride;
			sum = sum + from[(pixel * size + x + pad - ox * stride) * c + channel];
		}
	to[i] = sum;
}
