# Clairon::Test::Differential::Oracle: derives the plugin's expected output from the output of test_decoding.
#
#   my $oracle = Clairon::Test::Differential::Oracle->new(values => $types, prefix => 'srv');
#   for my $expected ($oracle->read($text)) { .. }     # one message of test_decoding, in order
#
# Each message is a complete line of the plugin's output without the id: { line, xid, position }; `line` starts after
# the id. test_decoding needs include-timestamp and a session with the test's settings.
package Clairon::Test::Differential::Oracle;

use strict;
use warnings;

use JSON ();

use Clairon::Test::Differential::Values qw(json_string);

my $tail =
    '"retry":{"ack_required":false,"enabled":false,"attempts":0,"limit":5,'
    . '"backoff":"EXPONENTIAL"}}}';
my $name = qr/(?:"(?:[^"]|"")++"|[^\s"\[\].,:]++)/;

sub new
{
    my ($class, %options) = @_;
    return bless { %options, tables => {}, waiting => [], last => {}, count => {} }, $class;
}

# Returns the name that a quoted identifier denotes.
sub plain
{
    my ($text) = @_;
    return $text unless $text =~ s/^"(.*)"$/$1/s;
    return $text =~ s/""/"/gr;
}

# The lines are complete only at COMMIT, which has the timestamp.
sub read
{
    my ($self, $text) = @_;
    if ($text =~ /^BEGIN (\d+)/) { $self->{xid} = $1; $self->{waiting} = []; return }
    if ($text =~ /^COMMIT \d+ \(at (\S+) ([\d:]+)(?:\.(\d+))?\+00\)$/)
    {
        my $time = sprintf '%sT%s.%sZ', $1, $2, substr(($3 // '') . '000000', 0, 6);
        $_->{line} =~ s/"timestamp":""/"timestamp":"$time"/ for @{ $self->{waiting} };
        return @{ $self->{waiting} };
    }
    if ($text =~ /^message: transactional: 1 prefix: (\w+), sz: \d+ content:(.*)$/s)
    {
        $self->read_message($1, $2);
    }
    elsif ($text =~ s/^table ((?:$name\.$name(?:, )?)+): TRUNCATE: [(\w) -]*$/$1/s)
    {
        $self->truncated($text);
    }
    elsif ($text =~ s/^table ($name\.$name): (INSERT|UPDATE|DELETE): ?//s)
    {
        $self->changed($1, $2, $text);
    }
    else
    {
        die "unexpected output of test_decoding: $text";
    }
    return;
}

sub read_message
{
    my ($self, $kind, $json) = @_;
    my $record = JSON->new->decode($json);    # input and output are bytes
    if ($kind eq 'table') { $self->{tables}{ $record->{table} } = $record }
    elsif ($kind eq 'row') { $self->{values}->add_record($record->{type}, $record->{attributes}) }
    return;
}

# name => [type, value]; a value is undef for null, \1 if it is not in the WAL.
sub tuple
{
    my ($text) = @_;
    my %values;
    while ($text =~
        /\G ?($name)\[((?:[^\]]|\](?!:))+)\]:(?:'((?:[^']++|'')*+)'|B'([01]*)'|([^ ']+))/gcs)
    {
        my ($column, $type, $string, $bits, $literal) = ($1, $2, $3, $4, $5);
        $string =~ s/''/'/g if defined $string;
        $values{$column} = [$type, $string // $bits
                // ($literal eq 'null' ? undef : $literal eq 'unchanged-toast-datum' ? \1 : $literal)];
    }
    die "cannot parse: " . substr($text, pos($text) // 0, 200)
        if (pos($text) // 0) < length $text;
    return \%values;
}

sub image
{
    my ($self, $columns, $values) = @_;
    my (@members, %texts);
    for my $column (@$columns)
    {
        my ($type, $value) = @{ $values->{$column} // next };
        next if ref $value;
        my $json = $self->{values}->json($type, $value);
        push @members, json_string(plain($column)) . ":$json";
        $texts{ plain($column) } = [$type, $json];
    }
    return '{' . join(',', @members) . '}', \%texts;
}

sub names
{
    return '[' . join(',', map { json_string(plain($_)) } @_) . ']';
}

sub payload
{
    my ($self, $columns, $old, $whole, $new, $operation) = @_;
    my $before = $old ? ($self->image($columns, $old))[0] : 'null';
    my $after = $new ? ($self->image($columns, $new))[0] : 'null';
    my $payload = "\"before\":$before,\"after\":$after";
    my @missing = grep { $new && $new->{$_} && ref $new->{$_}[1] } @$columns;
    $payload .= ',"unchanged":' . names(@missing) if @missing;
    if ($whole && $operation eq 'update')
    {
        my @differ = grep { ($old->{$_}[1] // "\0null") ne ($new->{$_}[1] // "\0null") } @$columns;
        $payload .= ',"changed":' . names(@differ);
    }
    return $payload;
}

sub line
{
    my ($self, $emitter, $source, $operation, $payload, $routing) = @_;
    $self->{count}{"$emitter $operation"}++;
    my $topic = "$self->{prefix}.$source";
    $routing //= '"type":"ALL","targets":[]';
    push @{ $self->{waiting} }, {
        xid => $self->{xid}, source => $source,
        line => '","priority":"NORMAL","type":"REALTIME","emitter":"'
            . $emitter
            . '","source":'
            . json_string($source)
            . ',"topic":'
            . json_string($topic)
            . ",\"operation\":\"$operation\",\"timestamp\":\"\"},\"payload\":{$payload},"
            . "\"routing\":{\"audience\":{$routing},"
            . $tail };
    return;
}

# { operation, old, new, whole }: one change as recorded in the WAL.
sub read_change
{
    my ($shape, $kind, $text) = @_;
    my %change =
        (operation => { INSERT => 'create', UPDATE => 'update', DELETE => 'delete' }->{$kind});
    if ($kind eq 'DELETE')
    {
        $change{old} = tuple($text) unless $text eq '(no-tuple-data)';
    }
    else
    {
        my ($old, $rest) = split_old($text);
        @change{qw(old new)} = ($old, tuple($rest));
    }
    my ($old, $new) = @change{qw(old new)};
    if ($old && $shape->{identity} eq 'f')
    {
        # An old row omits nulls. Unchanged TOAST values are in the old row only.
        $old->{$_} //= ['text', undef] for @{ $shape->{columns} };
        $new->{$_} = $old->{$_} for grep { ref $new->{$_}[1] } keys %{ $new // {} };
        $change{whole} = 1;
        return \%change;
    }

    # After an update that did not change the key, only the new row has the key.
    $old = $new if $kind eq 'UPDATE' && !$old && @{ $shape->{key} };
    $change{old} = $old ? { map { $_ => $old->{$_} } @{ $shape->{key} } } : undef;
    return \%change;
}

sub changed
{
    my ($self, $table, $kind, $text) = @_;
    return if $table =~ /^clairon\./;
    my $shape = $self->{tables}{$table} or die "unknown shape of $table";
    my $change = read_change($shape, $kind, $text);
    $self->line('clairon', $shape->{source}, $change->{operation},
        $self->payload($shape->{columns}, @$change{qw(old whole new operation)}));
    $self->{waiting}[-1]{wal2json} = wal2json($shape, $kind)
        if $kind eq 'INSERT' || $shape->{identity} eq 'f' || @{ $shape->{key} };
    for my $rule (@{ $shape->{rules} })
    {
        if ($rule->{audience} eq 'ALL')
        {
            $self->line($rule->{emitter}, $rule->{source}, $change->{operation},
                $self->payload($rule->{columns}, @$change{qw(old whole new operation)}));
        }
        else
        {
            $self->evaluate($rule, $change);
        }
    }
    $self->remember($shape, $change);
    return;
}

sub wal2json
{
    my ($shape, $kind) = @_;
    my ($schema, $table) = map { json_string(plain($_)) } $shape->{table} =~ /^($name)\.($name)$/;
    return substr($kind, 0, 1) . " $schema $table";
}

# ---- rules with targets and a condition

my %condition = (
    positive => sub { defined $_[0] && $_[0] > 0 },
    small => sub { defined $_[0] && $_[0] < 2 });

# undef: unknown
sub is_met
{
    my ($rule, $row) = @_;
    return 1 if $rule->{emitter} eq 'always';
    return undef unless $row && $row->{ $rule->{condition} };
    return $condition{ $rule->{emitter} }->($row->{ $rule->{condition} }[1]) ? 1 : 0;
}

sub targets
{
    my ($self, $rule, $row) = @_;
    my $cell = $row && $row->{ $rule->{target} } or return undef;
    return undef if ref $cell->[1];
    return [] unless defined $cell->[1];
    my $value = JSON->new->allow_nonref->decode($self->{values}->json($cell->[0], $cell->[1]));
    my %seen;
    return [grep { defined $_ && $_ ne '' && !$seen{$_}++ } ref $value ? @$value : $value];
}

sub emit
{
    my ($self, $rule, $change, $operation, $targets) = @_;
    my %bit = (create => 1, update => 2, delete => 4);
    return if !@$targets || !($rule->{operations} & $bit{$operation});
    my $old = $operation eq 'create' ? undef : $change->{old};
    my $new = $operation eq 'delete' ? undef : $change->{new};
    my $routing = '"type":"USER","targets":[' . join(',', map { json_string($_) } @$targets) . ']';
    return $self->line($rule->{emitter}, $rule->{source}, $operation,
        $self->payload($rule->{columns}, $old, $change->{whole}, $new, $operation), $routing);
}

# Returns whether a visible column may have changed.
sub is_affected_by
{
    my ($rule, $change) = @_;
    return 1 unless $rule->{has_columns};
    my ($old, $new) = @$change{qw(old new)};
    for my $column (@{ $rule->{columns} })
    {
        next if ref $new->{$column}[1];
        return 1 unless $old && $old->{$column};
        return 1 if ($old->{$column}[1] // "\0null") ne ($new->{$column}[1] // "\0null");
    }
    return 0;
}

sub evaluate
{
    my ($self, $rule, $change) = @_;
    my $operation = $change->{operation};
    return if !$rule->{target} || ($rule->{emitter} ne 'always' && !$rule->{condition});
    if ($operation ne 'update')
    {
        my $row = $change->{ $operation eq 'create' ? 'new' : 'old' };
        my $targets = $self->targets($rule, $row);
        $self->emit($rule, $change, $operation, $targets) if is_met($rule, $row) && $targets;
        return;
    }
    my $after = is_met($rule, $change->{new});
    my $before = is_met($rule, $change->{old}) // $after;
    my $gained = $self->targets($rule, $change->{new});
    my $lost = $self->targets($rule, $change->{old});
    return unless $before || $after;
    if (!$before) { $self->emit($rule, $change, 'create', $gained) if $gained; return }
    if (!$after) { $self->emit($rule, $change, 'delete', $lost) if $lost; return }
    return unless $gained;

    if (!$lost)
    {
        $self->emit($rule, $change, 'update', $gained) if is_affected_by($rule, $change);
        return;
    }
    my %in_lost = map { $_ => 1 } @$lost;
    my %in_gained = map { $_ => 1 } @$gained;
    $self->emit($rule, $change, 'delete', [grep { !$in_gained{$_} } @$lost]);
    $self->emit($rule, $change, 'update', [grep { $in_lost{$_} } @$gained])
        if is_affected_by($rule, $change);
    $self->emit($rule, $change, 'create', [grep { !$in_lost{$_} } @$gained]);
    return;
}

# "old-key: .. new-tuple: ..", where values may contain any string.
sub split_old
{
    my ($text) = @_;
    return (undef, $text) unless $text =~ s/^old-key: //;
    $text =~
        /\G(?: ?$name\[(?:[^\]]|\](?!:))+\]:(?:'(?:[^']++|'')*+'|B'[01]*'|[^ ']+))*+ new-tuple: /gcs
        or die 'no new tuple: ' . substr $text, 0, 300;
    my $at = pos $text;
    return (tuple(substr $text, 0, $at - length ' new-tuple: '), substr $text, $at);
}

sub truncated
{
    my ($self, $list) = @_;
    my @tables = $list =~ /($name\.$name)/g;
    for my $table (@tables)
    {
        my $shape = $self->{tables}{$table} or die "unknown shape of $table";
        for my $rule (@{ $shape->{rules} })
        {
            # Only a TRUNCATE of the rule's own table is sent.
            next if !($rule->{operations} & 8) || $rule->{table} ne $table;
            $self->line('rule', $rule->{source}, 'truncate', '"before":null,"after":null');
        }
        delete $self->{last}{ $shape->{oid} };
    }
    return;
}

# The last known state of each row, by its id: { column => [type, JSON] }.
sub remember
{
    my ($self, $shape, $change) = @_;
    my ($old, $new) = @$change{qw(old new)};
    my $rows = $self->{last}{ $shape->{oid} } //= {};
    delete $rows->{ $old->{id}[1] } if $old && $old->{id};
    $rows->{ $new->{id}[1] } = ($self->image($shape->{columns}, $new))[1] if $new;
    return;
}

1;
