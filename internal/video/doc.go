// Package video writes pictures of environments: several side by side on a Sheet, a sheet as PNG,
// and sheets one after another as a film: an animated PNG, or by ffmpeg GIF, MP4 or WebM.
//
// Pictures are RGB, [height, width, 3] bytes from the top row down.
package video
