# Clairon::Test::Receipts: adds receipts to a store as its scripts do, and reads the rows that the sink has inserted.
package Clairon::Test::Receipts;

use strict;
use warnings;

use JSON ();
use POSIX qw(strftime);

# Returns the receipts of a stream entry with these fields, which a script has packed, as {id =, data =}.
sub unpack_entry
{
    my (undef, $count, @fields) = @_;
    my ($template, $id, %times, @found) = ('', '', d => 'null', a => 'null');
    while (my ($name, $value) = splice @fields, 0, 2)
    {
        if    ($name eq 't')    { $template = $value }
        elsif ($name =~ /^[da]$/) { $times{$name} = $value eq 'null' ? $value : strftime('"%Y-%m-%dT%H:%M:%S', gmtime $value / 1000) . sprintf '.%03d000Z"', $value % 1000 }
        else
        {
            $id = $name if $name ne '';
            my $user = substr JSON->new->allow_nonref->encode($value), 1, -1;
            my %in   = ("\1" => $id, "\2" => $user, "\3" => $times{d}, "\4" => $times{a});
            my $text = $template =~ s/([\1-\4])/$in{$1}/gr;
            push @found, map { { id => JSON->new->decode($_)->{id}, data => $_ } } split /\x05/, $text;
        }
    }
    die "the entry has $count receipts, not " . @found . "\n" if $count != @found;
    return @found;
}

# Options: pg, store; `relays` is not needed: a receipt is an entry of the store.
sub new
{
    my ($class, $pg, $store) = @_;
    return bless { pg => $pg, store => $store, count => 0, ids => {} }, $class;
}

sub new_receipt
{
    my ($self, %fields) = @_;
    my $number       = ++$self->{count};
    my $now          = strftime '%Y-%m-%dT%H:%M:%S.123456Z', gmtime;
    my $notification = sprintf '018f0000-0000-7000-8000-%012x', $number;
    my %receipt      = (
        notification => $notification, user_id => "u$number", outcome => 'acked', round => 1,
        at => $now, delivered_at => $now, attempts => 0,
        emitter => 'app', source => 'assignments', topic => 'db.assignments', acked => undef, recipients => undef,
        %fields);
    $receipt{id} //= join ':', @receipt{qw(notification user_id outcome round)};
    $self->{ids}{ $receipt{id} } = 1;
    return \%receipt;
}

sub add_entry
{
    my ($self, $shard, @fields) = @_;
    my @keys = $self->{store}->keys('receipts');
    return $self->{store}->execute_bytes('XADD', $keys[$shard], '*', @fields);
}

# Adds receipts, each as an entry of its own, and returns their ids. The fields of a receipt replace the defaults; `shard`
# selects its shard.
sub add
{
    my ($self, @all) = @_;
    my @added;
    for my $given (@all)
    {
        my %fields  = %$given;
        my $shard   = delete $fields{shard} // 0;
        my $receipt = $self->new_receipt(%fields);
        $self->add_entry($shard, id => $receipt->{id}, data => JSON->new->canonical->utf8->encode($receipt));
        push @added, $receipt->{id};
    }
    return @added;
}

# Adds this many receipts as one entry, as the scripts do. Returns their ids.
sub add_packed
{
    my ($self, $shard, $count, %fields) = @_;
    my (@added, @pairs);
    my $template = qq({"id":"\1:\2:acked:1","notification":"\1","user_id":"\2","outcome":"acked","round":1,"at":\4,)
      . qq("delivered_at":\3,"attempts":0,"emitter":"app","source":"assignments","topic":"db.assignments","acked":null,"recipients":null});
    for (1 .. $count)
    {
        my $receipt = $self->new_receipt(%fields);
        push @added, $receipt->{id};
        push @pairs, d => '1764475505000' if @added == 2;
        push @pairs, @$receipt{qw(notification user_id)};
    }
    $self->add_entry($shard, n => $count, t => $template, a => '1764475506123', @pairs);
    return @added;
}

# Adds this many receipts to each shard.
sub add_many
{
    my ($self, $count) = @_;
    my @keys = $self->{store}->keys('receipts');
    return map { my $shard = $_; map { $self->add({ shard => $shard }) } 1 .. $count } 0 .. $#keys;
}

# Returns the ids of the rows, sorted.
sub rows
{
    my ($self) = @_;
    my $rows = $self->{pg}->safe_psql('postgres',
        q{SELECT notification || ':' || user_id || ':' || outcome || ':' || round FROM clairon.receipt ORDER BY 1});
    return split /\n/, $rows;
}

sub row_count { return $_[0]{pg}->safe_psql('postgres', 'SELECT count(*) FROM clairon.receipt') }

# Waits until there is a row for each receipt that was added.
sub wait_all
{
    my ($self) = @_;
    my $count = keys %{ $self->{ids} };
    return Clairon::Test::wait_until("$count receipts are rows", sub { (eval { $self->row_count } // -1) >= $count });
}

# Returns the receipts without a row, and the rows without a receipt.
sub differences
{
    my ($self) = @_;
    my %rows = map { $_ => 1 } $self->rows;
    return (grep({ !$rows{$_} } sort keys %{ $self->{ids} }), grep { !$self->{ids}{$_} } sort keys %rows);
}

# Returns the number of receipts that a group has read and not acknowledged, in all shards.
sub pending
{
    my ($self, $group) = @_;
    my $count = 0;
    for my $key ($self->{store}->keys('receipts'))
    {
        my $pending = eval { $self->{store}->execute('XPENDING', $key, $group) } or next;
        $count += $pending->[0];
    }
    return $count;
}

# Returns the names of the consumers of a group in a shard.
sub consumers
{
    my ($self, $group, $shard) = @_;
    my @keys = $self->{store}->keys('receipts');
    return map { my %field = @$_; $field{name} } @{ $self->{store}->execute('XINFO', 'CONSUMERS', $keys[ $shard // 0 ], $group) };
}

1;
