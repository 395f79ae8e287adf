// Package verify answers: is an answer to a mathematical problem right? It compares the boxed answer of a response
// with the known solutions of the problem, by their mathematical meaning.
//
//	v := verify.Grade(response, []string{`\frac{1}{2}`})
//	if v.Outcome == verify.Right { … }       // v.Answer is the text of the last \boxed
//
// The answer is the text in braces after the last \boxed. A response without \boxed has no answer. The answer must
// equal one of the solutions.
//
// Two answers are equal if one of these holds:
//   - The texts are the same except for spaces and notation: \dfrac and \frac, \leq and ≤, x_8 and x_{8},
//     full-width signs. Case matters only if it may distinguish variables, as in GMm.
//   - The values agree: numbers, fractions, mixed numbers, percents, roots, powers, π, e, i, functions,
//     factorials, and variables. A thousands comma is part of a number.
//   - Tuples and intervals have equal brackets and items. Matrices have equal entries.
//   - Lists and sets have equal items, in any order. "x = ±2" is a list of two items. "x_1 = 1, x_2 = 2" equals
//     "1, 2". As a solution, "x_1 = 1, x_2 = 2" also requires this order.
//   - Equations and inequalities have equal differences of their sides. For equations, the differences may
//     have opposite signs. "x = 3" equals "3", and "x = 3" differs from "y = 3". The name on the left may
//     also be words, as in \text{Area} = 12, or f'(x).
//   - One answer is only a choice from A to J, and the other answer begins with this choice: "(B) 12", "B: yes". A
//     choice is a capital letter, a letter in brackets, (B) or (b), or a letter after a word: Option B.
//   - Words are the same, in any script. Case matters only in pairs of letters that may be a product: "No" equals
//     "no", and "Gm" differs from "gm". The words no, on, up, ok, ja and si are no products. Quotes around an answer
//     have no meaning.
//
// Units are ignored, unless both answers have a unit that this package knows; then the units must be the same. It
// knows metric units with their prefixes and products (5 \text{ kN·m}), currencies (€5, EUR 5, \$5 million),
// temperatures (37°C), and the common units in some other languages (5米, 5 часов). The sign ° agrees with °C and °F,
// pounds with lb and £, and ¥ with yen and yuan. A letter without \text is a variable, also after a number: 5 N differs
// from 5. Only Ω after the number is a unit. An ordinal number equals its number: 4th equals 4.
//
// A sign = before an answer, and a comma, a semicolon or a point after it, have no meaning. Dots mark repeating
// digits, as \overline does: 0.\dot{3} is 1/3. \lfloor and \lceil round. \binom takes any rational number above an
// integer. There is no tolerance: 0.333 is not 1/3. An approximation after an exact value, 1/3 ≈ 0.333, is ignored if
// it fits. Colours, underlines and bold marks are ignored. Percents are not scaled: 50% equals 50 and differs from
// 0.5.
//
// Rational values are compared exactly. Other values are computed with 1088 bits, at fixed values of the variables.
// They must agree to 700 bits wherever both are defined. Roots and logarithms of expressions with variables are
// defined where they are real. For example, √(x²) equals |x| and differs from x.
//
// The result is deterministic: the package uses no clock and no random numbers. Limits on bytes, nesting, nodes,
// functions, digits and magnitudes bound the computation. An answer that is beyond a limit, or is ambiguous such as
// 1/2x, equals only the same text.
package verify
