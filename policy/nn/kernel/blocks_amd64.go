package kernel

// stridedSIMD is strided for the vector levels.
func stridedSIMD(lv level, c []float32, cStep int, s origin, a []float32, aRow, aCol int, b []float32, bStep, m, n,
	k int, add []origin) {
	var zeros [maxColumns]float32
	if m == 0 || n == 0 {
		return
	}
	for j, columns := 0, 0; j < n; j += columns {
		columns = panelColumns(lv, n-j)
		t := panel{
			c: &c[j], start: &zeros[0], cStep: 4 * cStep, aStep: 4 * aRow, aCol: 4 * aCol, bStep: 4 * bStep, m: m, k: k,
		}
		if k > 0 {
			t.a, t.b = &a[0], &b[j]
		}
		if s.data != nil {
			t.start, t.startStep = &s.data[j], 4*s.step
		}
		t.addends = len(add)
		for i, o := range add {
			t.add[i] = addend{&o.data[j], 4 * o.step}
		}
		t.run(lv, columns)
	}
}

// packSIMD sets the first rows and columns of dst, of row length w, to the transpose of b; both are
// multiples of 8.
func packSIMD(dst, b []float32, step, rows, w, columns int) {
	if columns == 0 {
		return
	}
	for p := 0; p < rows; p += 8 {
		transpose8(&dst[p*w], &b[p], 4*w, 4*step, columns/8)
	}
}
