# Clairon::Test::Live::History: the states that live lists may show, derived from test_decoding's output on the primary.
#
#   my $history = Clairon::Test::Live::History->new($pg, lists => { name => sub { my ($tables) = @_; .. } });
#   $history->extend;                               # reads the transactions since the last call
#   $history->add_snapshot('7421:7430:7424');       # of rows that a client received
#   $history->follow($progress, 'name', $text);     # '' or an error
#   $history->newest('name');                       # the state after all transactions
#
# The state of a list is a string. A client's list shows the state at a point: all changes up to an index in commit
# order, and the changes of later transactions in a snapshot. Commits may become visible in a different order than they
# were written, so a snapshot may lack a transaction that precedes transactions in the snapshot. Each point of a client
# includes its previous point.
package Clairon::Test::Live::History;

use strict;
use warnings;

use List::Util qw(all);

my $SLOT = 'history';

# The decoded rows of the given tables are stored by key. `keys`: table => its key columns. `lists`: name => a
# function from { table => { key => row } } to a string.
sub new
{
    my ($class, $pg, %options) = @_;
    $pg->safe_psql('postgres', "SELECT pg_create_logical_replication_slot('$SLOT', 'test_decoding')");
    my $self = bless { pg => $pg, %options, changes => [], transactions => [], tables => {}, states => {}, points => {}, partial => {} }, $class;
    $self->{tables}{$_} = {} for keys %{ $self->{keys} };
    $self->add_states(0);
    return $self;
}

# ---- the WAL

# Parses the values of a row as test_decoding prints them: name[type]:value.
sub values_of
{
    my ($text) = @_;
    my %row;
    while ($text =~ /\G ?([^\[ ]+)\[[^:]*\]:(?:'((?:[^']|'')*)'|(\S+))/gc)
    {
        my ($name, $quoted, $plain) = ($1, $2, $3);
        next if !defined $quoted && $plain eq 'unchanged-toast-datum';
        $row{$name} = defined $quoted ? $quoted =~ s/''/'/gr : $plain eq 'null' ? undef : $plain;
    }
    die "unexpected row: $text\n" unless (pos($text) // 0) == length $text;
    return \%row;
}

sub key_of
{
    my ($self, $table, $row) = @_;
    return join '|', @{$row}{ @{ $self->{keys}{$table} } };
}

# Parses a change: its table, the key of the old row, and the new row; or a TRUNCATE of the table.
sub parse
{
    my ($self, $line) = @_;
    my ($table, $operation, $rest) = $line =~ /^table "?[\w]+"?\."?([\w]+)"?: (\w+): (.*)$/s or die "unexpected change: $line\n";
    return unless $self->{keys}{$table};
    return { table => $table, is_truncate => 1 } if $operation eq 'TRUNCATE';
    my ($old, $new) = $operation eq 'INSERT' ? (undef, $rest) : $operation eq 'DELETE' ? ($rest, undef)
      : $rest =~ /^old-key: (.*) new-tuple: (.*)$/s ? ($1, $2) : (undef, $rest);
    $_ = values_of($_) for grep { defined } $old, $new;
    $old //= $new if $operation eq 'UPDATE';
    return { table => $table, new => $new, old_key => $old && $self->key_of($table, $old) };
}

sub apply
{
    my ($self, $tables, $change) = @_;
    my $rows = $tables->{ $change->{table} };
    %$rows = () if $change->{is_truncate};
    my $was  = defined $change->{old_key} ? delete $rows->{ $change->{old_key} } : undef;
    return unless $change->{new};
    my $row = { %{ $was // {} }, %{ $change->{new} } };
    $rows->{ $self->key_of($change->{table}, $row) } = $row;
    return;
}

# Reads the transactions that have committed since the last call. After a crash the slot returns some transactions
# again.
sub extend
{
    my ($self) = @_;
    my ($changes, $x, @new) = ($self->{changes});
    for my $line (split /\n/, $self->{pg}->safe_psql('postgres',
        "SELECT data FROM pg_logical_slot_get_changes('$SLOT', NULL, NULL, 'include-xids', '1', 'skip-empty-xacts', '1')"))
    {
        if    ($line =~ /^BEGIN (\d+)$/)         { ($x, @new) = ($1) }
        elsif ($line =~ /^COMMIT (?:PREPARED )?/) { $self->add_transaction($x, @new) if @new && !$self->{is_read}{$x}++ }
        else                                     { push @new, $self->parse($line) }
    }
    return;
}

sub add_transaction
{
    my ($self, $x, @changes) = @_;
    push @{ $self->{transactions} }, { x => $x, from => scalar @{ $self->{changes} }, count => scalar @changes };
    for my $change (@changes)
    {
        push @{ $self->{changes} }, $change;
        $self->apply($self->{tables}, $change);
        $self->add_states(scalar @{ $self->{changes} });
    }
    return;
}

# `states` maps each list and string to the ranges of points with that string: [from, to), without `to` for the newest.
sub add_states
{
    my ($self, $point) = @_;
    for my $list (keys %{ $self->{lists} })
    {
        my $text   = $self->{lists}{$list}->($self->{tables});
        my $newest = $self->{points}{$list};
        next if $newest && $newest->{text} eq $text;
        $newest->{range}[1] = $point if $newest;
        my $range = [$point];
        push @{ $self->{states}{$list}{$text} }, $range;
        $self->{points}{$list} = { text => $text, range => $range };
    }
    return;
}

sub newest { my ($self, $list) = @_; return $self->{points}{$list}{text} }
sub transaction_count { return scalar @{ $_[0]{transactions} } }

# ---- points: { length => number of changes, extra => { number of a later change => 1 } }

sub includes
{
    my ($point, $other) = @_;
    return $other->{length} <= $point->{length} && all { $_ < $point->{length} || $point->{extra}{$_} } keys %{ $other->{extra} };
}

# A snapshot that lacks a transaction but contains a later transaction adds points: all changes up to the later
# transaction, except changes of the missing transaction.
sub add_snapshot
{
    my ($self, $snapshot) = @_;
    return if $self->{snapshots}{$snapshot}++;
    push @{ $self->{unread_snapshots} }, $snapshot;
    return;
}

sub contains
{
    my ($snapshot, $x) = @_;
    my ($xmin, $xmax, $running) = split /:/, $snapshot;
    return $x < $xmin || $x < $xmax && ",$running," !~ /,$x,/;
}

sub add_points
{
    my ($self) = @_;
    for my $snapshot (@{ delete $self->{unread_snapshots} // [] })
    {
        my ($length, %extra);
        for my $transaction (@{ $self->{transactions} })
        {
            my ($from, $end) = ($transaction->{from}, $transaction->{from} + $transaction->{count});
            if    (!contains($snapshot, $transaction->{x})) { $length //= $from }
            elsif (defined $length)                           { $extra{$_} = 1 for $from .. $end - 1 }
        }
        next unless %extra;
        my ($last) = sort { $b <=> $a } keys %extra;
        for my $point ($length .. $last)
        {
            delete $extra{$point - 1};
            $self->{partial}{ join ' ', $point, sort keys %extra } //= { length => $point, extra => {%extra} };
        }
    }
    return;
}

# Returns the string of a list at a point with extra changes.
sub text_at
{
    my ($self, $point, $list) = @_;
    $point->{tables} //= do {
        my %tables = map { $_ => {} } keys %{ $self->{keys} };
        $self->apply(\%tables, $self->{changes}[$_]) for 0 .. $point->{length} - 1, sort { $a <=> $b } keys %{ $point->{extra} };
        \%tables;
    };
    return $self->{lists}{$list}->($point->{tables});
}

# Returns the first point with this string that includes `$from`.
sub first_point
{
    my ($self, $from, $list, $text) = @_;
    my ($last) = sort { $b <=> $a } $from->{length}, map { $_ + 1 } keys %{ $from->{extra} };
    for my $range (@{ $self->{states}{$list}{$text} // [] })
    {
        next if defined $range->[1] && $range->[1] <= $last;
        return { length => $range->[0] > $last ? $range->[0] : $last, extra => {}, range => $range };
    }
    return;
}

# Records that a client's list now shows this string; returns '' or an error. `$progress` contains the points that its
# earlier strings allow; initially it is {}.
sub follow
{
    my ($self, $progress, $list, $text) = @_;
    $self->add_points;
    my @from = @{ $progress->{points} // [ { length => 0, extra => {} } ] };
    my @next = map { $self->first_point($_, $list, $text) // () } @from;
    for my $point (values %{ $self->{partial} })
    {
        push @next, $point if grep({ includes($point, $_) } @from) && $self->text_at($point, $list) eq $text;
    }
    # A point that includes another point allows no additional states.
    my @least;
    for my $point (sort { $a->{length} <=> $b->{length} || keys %{ $a->{extra} } <=> keys %{ $b->{extra} } } @next)
    {
        push @least, $point unless grep { includes($point, $_) } @least;
    }
    if (@least)
    {
        $progress->{points} = \@least;
        $progress->{text}   = $text;
        $progress->{list}   = $list;
        return '';
    }
    my $known = $self->{states}{$list}{$text};
    return sprintf "%s: \"%s\" after \"%s\" (%s): %s", $list, $text, $progress->{text} // '', join(', ', map { $_->{length} } @from),
      $known ? 'the state of earlier points: ' . join ', ', map { $_->[0] . '-' . ($_->[1] // '') } @$known : 'no state of the table';
}

# Returns whether the string existed only at points of a snapshot, not in commit order.
sub is_of_snapshot { my ($self, $progress) = @_; return !grep { $_->{range} } @{ $progress->{points} } }

# Returns whether the client showed part of a transaction: at all points that its strings allow, the list has this string
# only within transactions.
sub is_within_transaction
{
    my ($self, $progress) = @_;
    return !grep { !$_->{range} || $self->has_later_state($progress, $_) } @{ $progress->{points} };
}

# Returns whether the list has this string after a whole transaction, at the point or later.
sub has_later_state
{
    my ($self, $progress, $point) = @_;
    my @ends = (0, map { $_->{from} + $_->{count} } @{ $self->{transactions} });
    for my $range (@{ $self->{states}{ $progress->{list} }{ $progress->{text} } })
    {
        my ($from, $end) = @$range;
        $from = $point->{length} if $from < $point->{length};
        return 1 if grep { $_ >= $from && (!defined $end || $_ < $end) } @ends;
    }
    return 0;
}

1;
