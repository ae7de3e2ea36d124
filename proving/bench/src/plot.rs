//! Results as plots: SVG that is readable on light and dark backgrounds.

use std::ops::Range;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::AnyError;
use crate::figure::shown;

#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    pub name: String,
    /// The points, ordered by x. All coordinates are positive.
    pub points: Vec<(f64, f64)>,
}

/// The label of an axis, with its unit.
pub type Axis<'a> = &'a str;

/// The colour of text, axes and grid: as far from white as from black.
const INK: RGBColor = RGBColor(0x7d, 0x82, 0x8a);

/// Colours that contrast with both white and black. The first is for the subject of the plot.
const COLOURS: [u32; 12] = [
    0xe4572e, 0x3b82c4, 0x2e9e6b, 0xa36bd6, 0xc98a1b, 0xd1578f, 0x1fa3a3, 0x8a8f2a, 0x6b7fd6, 0xb0704a,
    0x7a8b99, 0x4f9d3a,
];

const WIDTH: u32 = 860;
const HEIGHT: u32 = 420;
/// Space for the labels of curves and bars.
const NAMES: u32 = 190;
/// The font. The sizes below are those of the em square; letters are a fifth smaller.
const FONT: &str = "sans-serif";

/// Draws curves over two logarithmic axes, because the values span decades. `None` without points.
pub fn curves(x: Axis<'_>, y: Axis<'_>, curves: &[Curve]) -> Result<Option<String>, AnyError> {
    let points = || curves.iter().flat_map(|curve| curve.points.iter());
    let Some((across, up)) = span(points().map(|point| point.0)).zip(span(points().map(|point| point.1)))
    else {
        return Ok(None);
    };
    let mut svg = String::new();
    {
        let whole = SVGBackend::with_string(&mut svg, (WIDTH, HEIGHT)).into_drawing_area();
        let (field, beside) = whole.split_horizontally(WIDTH - NAMES);
        let mut chart = ChartBuilder::on(&field)
            .margin(14)
            .x_label_area_size(46)
            .y_label_area_size(66)
            .build_cartesian_2d(across.log_scale(), up.log_scale())?;
        chart
            .configure_mesh()
            .x_desc(x)
            .y_desc(y)
            .axis_style(INK)
            .bold_line_style(INK.mix(0.3))
            .light_line_style(TRANSPARENT)
            .label_style((FONT, 15, &INK))
            .axis_desc_style((FONT, 16, &INK))
            .x_label_formatter(&|value| shown(*value))
            .y_label_formatter(&|value| shown(*value))
            .draw()?;
        for (curve, (colour, stroke)) in curves.iter().zip(styles()) {
            chart.draw_series(LineSeries::new(curve.points.iter().copied(), colour.stroke_width(stroke)))?;
            let dots = curve.points.iter().map(|point| Circle::new(*point, stroke + 1, colour.filled()));
            chart.draw_series(dots)?;
        }
        name(&beside, curves)?;
        whole.present()?;
    }
    Ok(Some(svg))
}

/// Horizontal bars with names and values over a logarithmic axis, first on top; `None` without bars.
pub fn bars(x: Axis<'_>, bars: &[(String, f64)]) -> Result<Option<String>, AnyError> {
    let Some(across) = span(bars.iter().map(|bar| bar.1)) else { return Ok(None) };
    let least = across.start;
    let height = 80 + 28 * u32::try_from(bars.len())?;
    let mut svg = String::new();
    {
        let whole = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
        let mut chart = ChartBuilder::on(&whole)
            .margin(14)
            // Space for the value of the longest bar.
            .margin_right(60)
            .x_label_area_size(46)
            .y_label_area_size(NAMES)
            .build_cartesian_2d(across.log_scale(), 0.0..bars.len() as f64)?;
        chart
            .configure_mesh()
            .x_desc(x)
            .disable_y_mesh()
            .y_labels(0)
            .axis_style(INK)
            .bold_line_style(INK.mix(0.3))
            .light_line_style(TRANSPARENT)
            .label_style((FONT, 15, &INK))
            .axis_desc_style((FONT, 16, &INK))
            .x_label_formatter(&|value| shown(*value))
            .draw()?;
        for (n, (name, value)) in bars.iter().enumerate() {
            let middle = (bars.len() - n) as f64 - 0.5;
            let colour = colour(COLOURS[n.min(1)]);
            let corners = [(least, middle - 0.35), (*value, middle + 0.35)];
            chart.draw_series([Rectangle::new(corners, colour.filled())])?;
            let [(left, row), (right, _)] =
                [(least, middle), (*value, middle)].map(|at| chart.backend_coord(&at));
            let anchored = |to| (FONT, 16, &INK).into_text_style(&whole).pos(Pos::new(to, VPos::Center));
            whole.draw(&Text::new(name.clone(), (left - 10, row), anchored(HPos::Right)))?;
            whole.draw(&Text::new(shown(*value), (right + 6, row), anchored(HPos::Left)))?;
        }
        whole.present()?;
    }
    Ok(Some(svg))
}

fn colour(rgb: u32) -> RGBColor {
    let [_, red, green, blue] = rgb.to_be_bytes();
    RGBColor(red, green, blue)
}

/// The colour and width of each curve.
fn styles() -> impl Iterator<Item = (RGBColor, u32)> {
    COLOURS.into_iter().map(colour).cycle().zip([3].into_iter().chain(std::iter::repeat(2)))
}

fn name(beside: &DrawingArea<SVGBackend<'_>, Shift>, curves: &[Curve]) -> Result<(), AnyError> {
    let style = (FONT, 16, &INK).into_text_style(beside).pos(Pos::new(HPos::Left, VPos::Center));
    for (n, (curve, (colour, stroke))) in (0..).zip(curves.iter().zip(styles())) {
        let row = 28 + 24 * n;
        beside.draw(&PathElement::new([(0, row), (22, row)], colour.stroke_width(stroke)))?;
        beside.draw(&Text::new(curve.name.clone(), (30, row), style.clone()))?;
    }
    Ok(())
}

/// The range of an axis: from a little below the minimum to a little above the maximum.
fn span(values: impl Iterator<Item = f64> + Clone) -> Option<Range<f64>> {
    let least = values.clone().min_by(f64::total_cmp)?;
    let most = values.max_by(f64::total_cmp)?;
    Some(least / 1.25..most * 1.25)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_has_the_names_of_its_axes_and_its_curves_and_no_ground() {
        let one = Curve { name: "Leasehold & Co".into(), points: vec![(1.0, 20.0), (64.0, 300.0)] };
        let two = Curve { name: "bare".into(), points: vec![(1.0, 21.0), (64.0, 280.0)] };
        let svg = curves("tasks", "k/s", &[one, two]).unwrap().unwrap();
        for said in ["<svg", "tasks", "k/s", "Leasehold &amp; Co", "bare", "#E4572E", "#3B82C4"] {
            assert!(svg.contains(said), "no {said} in {svg}");
        }
        let of_a_ground = ["#FFFFFF", "#000000"];
        assert!(!of_a_ground.iter().any(|colour| svg.contains(colour)), "{svg}");
    }

    #[test]
    fn a_bar_is_as_long_as_the_logarithm_of_its_value() {
        let bar = |name: &str, value| (name.to_owned(), value);
        let svg = bars("µs", &[bar("a", 10.0), bar("b", 100.0), bar("c", 1000.0)]).unwrap().unwrap();
        let widths: Vec<i32> = svg
            .lines()
            .filter(|line| line.starts_with("<rect"))
            .map(|line| {
                let (_, rest) = line.split_once(" width=\"").unwrap();
                rest.split_once('"').unwrap().0.parse().unwrap()
            })
            .collect();
        let [a, b, c] = widths[..] else { panic!("{widths:?} in {svg}") };
        assert!(((c - b) - (b - a)).abs() <= 1 && b - a > 200, "{widths:?}");
    }

    #[test]
    fn an_unmeasured_plot_is_not_drawn() {
        assert_eq!(curves("x", "y", &[]).unwrap(), None);
        assert_eq!(bars("x", &[]).unwrap(), None);
    }
}
