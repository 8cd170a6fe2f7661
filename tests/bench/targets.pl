# Prints the targets of this run, and whether they were met: targets.pl FILE
use strict;
use warnings;

my @rows = map { chomp; [ split /\t/, $_, -1 ] } <>;
exit if !@rows;
my @width = (0) x 3;
for my $row ([qw(target aim reached)], @rows)
{
    for my $i (0 .. 2) { $width[$i] = length $row->[$i] if length $row->[$i] > $width[$i] }
}
my $format = "%-$width[0]s  %-$width[1]s  %-$width[2]s  %s\n";
my $missed = grep { $_->[3] ne 'met' } @rows;
printf "\n" . $format, qw(target aim reached), '';
printf $format, @{$_}[ 0 .. 2 ], join ' ', grep { length } @{$_}[ 3, 4 ] for @rows;
printf "\n%d targets, %d met, %d missed\n", scalar @rows, @rows - $missed, $missed;
