// Package video writes pictures of environments. A Sheet shows several side by side and can be
// written as PNG. A Film is a sequence of sheets: an animated PNG or, made by ffmpeg, GIF, MP4 or
// WebM.
//
// Pictures are RGB bytes of the shape [height, width, 3], with the top row first.
package video
