// Package verify answers: is an answer to a mathematical problem right? It compares the boxed answer of a response with
// the known solutions of the problem, as mathematics.
//
//	v := verify.Grade(response, []string{`\frac{1}{2}`})
//	if v.Outcome == verify.Right { … }       // v.Answer is the text of the last \boxed
//
// The answer is the text after the last \boxed, up to the brace that closes it. Without \boxed there is
// no answer: other numbers of the response do not count. The answer must equal one of the solutions.
//
// Two answers are equal if one of these holds:
//   - The texts agree, up to spaces and notation: \dfrac and \frac, \leq and ≤, x_8 and x_{8}, full-width
//     signs. Case counts only if it may distinguish variables, as in GMm.
//   - The values agree: numbers, fractions, mixed numbers, percents, roots, powers, π, e, i, functions,
//     factorials, and variables. A thousands comma is part of a number.
//   - Tuples and intervals agree in brackets and items, matrices in entries.
//   - Lists and sets without order agree in items. "x = ±2" is a list of two. "x_1 = 1, x_2 = 2" is "1, 2",
//     and as a solution it has that order.
//   - Equations and inequalities agree in the difference of their sides. The difference of an equation
//     may have either sign. "x = 3" equals "3", and "x = 3" differs from "y = 3". A name may
//     also be words, \text{Area} = 12, or f'(x).
//   - One is only a choice from A to E, and the other begins with it: "(B) 12".
//
// Units are dropped. If both answers have a unit that this package knows, the units must agree. There is no
// tolerance: 0.333 is not 1/3. An approximation after an exact value, 1/3 ≈ 0.333, is dropped if it fits.
// Colours, underlines and bold marks are dropped. Percents are not scaled: 50% equals 50 and differs from 0.5.
//
// Rational values are compared exactly. Other values are computed with 1024 bits at fixed points, and
// must agree to 700 bits at all points where both are defined. Roots and logarithms of expressions
// with variables are defined where they are real. So √(x²) equals |x| and differs from x.
//
// The package has no clock and no random numbers. Limits on bytes, nesting, nodes, functions,
// digits and magnitudes bound the work. An answer beyond a limit, or one with two possible meanings
// such as 1/2x, has no value: it equals only the same text.
package verify
