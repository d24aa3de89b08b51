"""What the runs say: sign flips, redundancy, the ablation with its intervals, figures, trajectory cards and the report."""

from turnwise.analysis.analyze import analyze
from turnwise.analysis.report import draw_card, report, show_card
from turnwise.analysis.tabular import ablation_markdown, ablation_text

__all__ = ["ablation_markdown", "ablation_text", "analyze", "draw_card", "report", "show_card"]
