# Reads the output of measure.sh, prints the cost of each plugin, and checks the targets of clairon.
use strict;
use warnings;

use FindBin qw($Bin);
use lib "$Bin/..";
use Targets;

my %run;      # workload => contender => [ { cpu, wall, rss, messages, bytes }, .. ]
my %failed;   # workload => contender => reason
my (@workloads, %title, %contenders, $scale);

sub read_results
{
    while (my $line = <>)
    {
        chomp $line;
        my ($what, $workload, $name, $rest) = split / /, $line, 4;
        if    ($what eq 'scale') { $scale = $workload }
        elsif ($what eq 'workload')
        {
            push @workloads, $workload;
            (undef, undef, $title{$workload}) = split / /, $line, 3;
        }
        else
        {
            my $seen = $contenders{$workload} //= [];
            push @$seen, $name unless grep { $_ eq $name } @$seen;
            if ($what eq 'failed') { $failed{$workload}{$name} = $rest }
            else
            {
                my %one;
                @one{qw(cpu wall rss messages bytes)} = split / /, $rest;
                push @{ $run{$workload}{$name} }, \%one;
            }
        }
    }
    return;
}

# Returns the median; undef without a run.
sub median
{
    my ($workload, $name, $of) = @_;
    my @sorted = sort { $a <=> $b } map { $_->{$of} } @{ $run{$workload}{$name} // [] };
    return $sorted[ $#sorted / 2 ];
}

sub ratio
{
    my ($workload, $name, $to, $of) = @_;
    my ($mine, $theirs) = map { median($workload, $_, $of) } $name, $to;
    return $mine && $theirs ? $mine / $theirs : undef;
}

sub number { my ($format, $value) = @_; return defined $value ? sprintf $format, $value : '-' }

sub rss_above_null
{
    my ($workload, $name) = @_;
    my ($mine, $floor) = map { median($workload, $_, 'rss') } $name, 'null';
    return defined $mine && defined $floor ? ($mine - $floor) / 1024 : undef;
}

my @against = qw(null byte pgoutput wal2json2);

sub print_table
{
    my ($workload) = @_;
    my $format = "%-15s %7s %7s  " . '%5s ' x 4 . ' ' . '%5s ' x 4 . " %8s %9s %8s\n";
    my @short  = qw(null byte pgout w2j2);
    my $rounds = 0;
    for my $runs (values %{ $run{$workload} }) { $rounds = @$runs if @$runs > $rounds }
    printf "\n%s: %s%s; medians of %d\n", $workload, $title{$workload},
      $scale == 1 ? '' : " (scaled by $scale)", $rounds;
    printf $format, '', 'CPU', 'wall', 'CPU', 'over', '', '', 'wall', 'over', '', '', '', '',
      'RSS over';
    printf $format, '', 's', 's', @short, @short, 'MB out', 'messages', 'null, MB';
    for my $name (@{ $contenders{$workload} })
    {
        if (defined $failed{$workload}{$name})
        {
            printf "%-15s failed: %s\n", $name, $failed{$workload}{$name};
            next;
        }
        my @over = map {
            my $of = $_;
            map { number('%.2f', ratio($workload, $name, $_, $of)) } @against
        } qw(cpu wall);
        printf $format, $name, (map { number('%.3f', median($workload, $name, $_) / 1e9) } qw(cpu wall)),
          @over, number('%.1f', median($workload, $name, 'bytes') / 1e6),
          median($workload, $name, 'messages'), number('%.1f', rss_above_null($workload, $name));
    }
    return;
}

# Prints one row per target and workload; no row if a contender is missing.
sub print_ratio_verdict
{
    my ($workload, $to, $most) = @_;
    my ($wall, $cpu) = map { ratio($workload, 'clairon', $to, $_) } qw(wall cpu);
    return unless defined $wall;
    my $met = sub { $_[0] <= $most ? 'met' : 'NOT MET' };
    my $floor = ratio($workload, 'null', $to, 'cpu');
    Targets::record("decoder, $workload, time over $to", sprintf('at most %.2f', $most), sprintf('%.2f', $wall),
        $wall <= $most, sprintf 'CPU %.2f', $cpu);
    printf "%-8s over %-10s at most %.2f:  wall %.2f %-8s CPU %.2f %-8s %s\n", $workload, $to,
      $most, $wall, $met->($wall), $cpu, $met->($cpu),
      defined $floor ? sprintf '(null, the minimum: %.2f)', $floor : '';
    return;
}

sub print_text_verdict
{
    my ($workload) = @_;
    my $cpu = ratio($workload, 'clairon-text', 'pgoutput', 'cpu') // return;
    Targets::record("decoder, $workload, text mode: CPU over pgoutput", 'below 1.00', sprintf('%.2f', $cpu), $cpu < 1);
    printf "%-8s text mode, CPU over pgoutput below 1.00:  %.2f %s\n", $workload, $cpu, $cpu < 1 ? 'met' : 'NOT MET';
    return;
}

# Warns if clairon's output is incomplete: it must have one message per change, and frames at least as long as the JSON.
sub print_work_verdict
{
    my ($workload) = @_;
    my ($changes, $lines) = map { median($workload, $_, 'messages') } qw(byte clairon-text);
    my ($frames, $text) = map { median($workload, $_, 'bytes') } qw(clairon clairon-text);
    printf "%-8s INCOMPLETE OUTPUT: %d notifications of %d changes\n", $workload, $lines, $changes
      if defined $changes && defined $lines && $lines != $changes;
    printf "%-8s INCOMPLETE OUTPUT: %d bytes of frames, %d bytes of lines\n", $workload, $frames, $text
      if defined $frames && defined $text && $frames < $text;
    return;
}

sub print_change
{
    my ($workload) = @_;
    my @over = map { ratio($workload, 'clairon', 'clairon-before', $_) } qw(wall cpu);
    printf "%-8s over clairon-before:  wall %.3f  CPU %.3f\n", $workload, @over if defined $over[0];
    return;
}

# Other plugins know no rules: what counts is the cost of one transaction, which must not grow with the number of rules.
sub print_watch_verdict
{
    my $us = (median('watch', 'clairon', 'cpu') // return) / 1e3 / (1000 * $scale);
    my $met = $us <= 100;
    printf "%-8s CPU of a transaction at most 100 us:  %.0f us %s\n", 'watch', $us, $met ? 'met' : 'NOT MET';
    Targets::record('decoder, watch, CPU of a transaction with 3000 rules', 'at most 100 us', sprintf('%.0f us', $us), $met);
    print_change('watch');
    return;
}

sub print_verdicts
{
    print "\nclairon's targets (wall time counts; on a busy machine, compare CPU)\n";
    print_watch_verdict() if grep { $_ eq 'watch' } @workloads;
    for my $workload (grep { $_ ne 'watch' } @workloads)
    {
        print_ratio_verdict($workload, 'byte', 1) if $workload =~ /^(narrow|small)$/;
        print_ratio_verdict($workload, 'pgoutput',  0.6);
        print_ratio_verdict($workload, 'wal2json2', 0.4);
        print_text_verdict($workload) if $workload eq 'narrow';
        my $rss = rss_above_null($workload, 'clairon');
        printf "%-8s RSS over null at most 16 MB:  %.1f MB %s\n", $workload, $rss,
          $rss <= 16 ? 'met' : 'NOT MET' if defined $rss;
        Targets::record("decoder, $workload, memory over null", 'at most 16 MB', sprintf('%.1f MB', $rss), $rss <= 16)
          if defined $rss;
        print_work_verdict($workload);
        print_change($workload);
    }
    return;
}

read_results();
print_table($_) for @workloads;
print_verdicts();
