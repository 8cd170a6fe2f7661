# Tests the lines `end`: one for each transaction of which a connection was sent something, behind its last notification,
# with one and with 16 shards, on two relays, over WebSocket, event streams and polls, with full windows, and for clients
# that resume or are new.
use strict;
use warnings;

use Clairon::Test qw(token amount);
use Clairon::Test::EventStream;
use JSON ();
use Test::More;

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE t (id bigint PRIMARY KEY, owner text, x text DEFAULT pg_current_xact_id()::text);
    CREATE TABLE acked (LIKE t INCLUDING ALL);
    CREATE TABLE grouped (LIKE t INCLUDING ALL);
    CREATE TABLE everyone (LIKE t INCLUDING ALL);
    SELECT clairon.watch('t', 'USER', 'owner');
    SELECT clairon.watch('acked', 'USER', 'owner', ack_required => true);
    SELECT clairon.watch('grouped', 'GROUP', 'owner', ack_required => true);
    SELECT clairon.watch('everyone', 'ALL');
    INSERT INTO clairon.member VALUES ('GROUP', 'g1', 'u1'), ('GROUP', 'g2', 'u2')});
my $id = 0;

sub sql { return $pg->safe_psql('postgres', $_[0]) }

# Rows of one random transaction, as statements.
sub statements
{
    my ($count) = @_;
    my @made;
    for (1 .. $count)
    {
        my $user = 1 + int rand 3;
        $id++;
        push @made, 'INSERT INTO ' . ("t VALUES ($id, 'u$user')", "acked VALUES ($id, 'u$user')", "grouped VALUES ($id, 'g$user')", "everyone VALUES ($id)")[ rand 4 ];
    }
    return @made;
}

# Writes random transactions, and a last one, for everybody. Returns the id of its row.
sub transactions
{
    my ($count) = @_;
    sql(join '', map { 'BEGIN; ' . join('; ', statements(1 + int rand 8)) . '; COMMIT; ' } 1 .. $count);
    return last_transaction();
}

sub last_transaction
{
    my $last = ++$id;
    sql("INSERT INTO everyone VALUES ($last)");
    return $last;
}

sub x_of { my ($line) = @_; return $line->{n}{payload}{after}{x} }

# What is wrong with the ends of these lines; '' if each transaction has one end, behind its first deliveries.
sub faults
{
    my (@lines) = @_;
    my (%last, %ends, %delivered, @faults);
    for my $i (0 .. $#lines)
    {
        my $line = $lines[$i];
        if ($line->{t} eq 'msg')
        {
            push @faults, "x of row $line->{n}{payload}{after}{id}" if $line->{x} ne x_of($line);
            $last{ $line->{x} } = $i if !$delivered{ $line->{n}{metadata}{id} }++;
        }
        elsif ($line->{t} eq 'end') { push @{ $ends{ $line->{x} } }, $i }
    }
    for my $x (sort keys %last)
    {
        my @at = @{ $ends{$x} // [] };
        push @faults, @at == 0 ? "no end of $x" : @at > 1 ? scalar(@at) . " ends of $x" : "the end of $x comes early" if @at != 1 || $at[0] < $last{$x};
    }
    push @faults, map { "an end of $_, of which nothing was sent" } grep { !defined $last{$_} } sort keys %ends;
    return join ', ', @faults;
}

sub lines { return grep { $_->{t} =~ /^(msg|end|gap)$/ } @{ $_[0]{messages} } }

sub wait_end
{
    my ($client, $row) = @_;
    my $x = x_of($client->wait_row($row));
    return $client->wait_for(sub { $_[0]{t} eq 'end' && $_[0]{x} eq $x });
}

# All lines of polls up to the end of the transaction of this row.
sub poll_until
{
    my ($relay, $row, $pos, $user) = @_;
    my (@lines, $x);
    for (1 .. 5000)
    {
        my $reply = HTTP::Tiny->new(timeout => 60)->get($relay->url('/v1/poll?ends=1&wait=5&max=7' . ($pos ? "&pos=$pos" : '')),
            { headers => { Authorization => 'Bearer ' . token(sub => $user) } });
        die "$reply->{status}: $reply->{content}" if $reply->{status} !~ /^20[04]$/;
        $pos = $reply->{headers}{'clairon-pos'};
        for my $line (map { JSON::decode_json($_) } split /\n/, $reply->{content} // '')
        {
            push @lines, { %$line, clairon => $pos };
            $x = $line->{x} if $line->{t} eq 'msg' && $line->{n}{payload}{after}{id} == $row;
            return @lines if $line->{t} eq 'end' && $line->{x} eq ($x // '');
        }
    }
    die 'no end';
}

# The lines of an event stream up to the end of the transaction of the row that `$write` returns.
sub stream_until
{
    my ($relay, $write) = @_;
    my $stream = Clairon::Test::EventStream->open($relay, 'u1', ':path' => '/v1/sse?ends=1');
    $stream->wait_message('connected');
    my $row = $write->();
    my (@lines, $x);
    while (my $line = $stream->event)
    {
        push @lines, { %$line, id => $stream->{id} };
        $x = $line->{x} if $line->{t} eq 'msg' && $line->{n}{payload}{after}{id} == $row;
        return @lines if $line->{t} eq 'end' && $line->{x} eq ($x // '');
    }
    die 'the stream ended';
}

for my $shards (1, 16)
{
    my $store  = Clairon::Test::store();
    my $slot   = "clairon_$shards";
    my %conf   = ('store.shards' => $shards, 'feed.slot' => $slot, 'delivery.window' => amount(64, 4096));    # nothing is held back but with `win`
    my $first  = Clairon::Test::relay($pg, $store, conf => \%conf);
    my $second = Clairon::Test::relay(undef, $store, roles => 'gate', conf => { %conf, 'rows.conninfo' => $pg->connstr('postgres') . ' user=relay' });
    for my $relay ($first, $second)
    {
        my $at     = ($relay == $first ? 'the relay with the feed' : 'another relay') . ", shards: $shards";
        my %ends   = (ends => JSON::true);
        my $plain  = $relay->client('u1');
        my $client = $relay->client('u1', %ends);
        my $narrow = $relay->client('u2', %ends, win => 3);
        my $other  = $relay->client('u3', %ends, topics => ['postgres.t', 'postgres.every*']);
        ok((grep { $_ eq 'ends' } @{ $client->wait_for('connected')->{features} }), "connected announces ends: $at");
        my $last = transactions(amount(40, 400));
        wait_end($client, $last);
        is(faults(lines($client)), '', "each transaction has one end: $at");
        $plain->wait_row($last);
        is(scalar(grep { $_->{t} eq 'end' } @{ $plain->{messages} }), 0, "a session without ends has none: $at");

        # The window lets the rest of a transaction wait: its end waits too, and ends of later ones do not.
        $narrow->run_until('the ends', sub { $narrow->ack_received; grep({ $_->{t} eq 'msg' && $_->{n}{payload}{after}{id} == $last } @{ $narrow->{messages} }) && faults(lines($narrow)) eq '' });
        my $end = last_transaction();
        wait_end($narrow, $end);
        is(faults(lines($narrow)), '', "each transaction has one end, with a window of 3: $at");
        wait_end($other, $end);
        is(faults(lines($other)), '', "each transaction has one end, with topics: $at");

        $client->ack_received;
        my @lines = stream_until($relay, sub { return transactions(10) });
        is(faults(grep { $_->{t} =~ /^(msg|end)$/ } @lines), '', "each transaction has one end, on an event stream: $at");
        $client->wait_row($id);
        $client->ack_received;
        is(scalar(grep { $_->{t} eq 'end' && $_->{id} ne $_->{pos} } @lines), 0, "an end has a cursor on an event stream: $at");

        my $poller = $relay->client('u3', %ends);
        my $pos    = $poller->wait_for('connected')->{pos};
        $last = transactions(20);
        @lines = poll_until($relay, $last, $pos, 'u3');
        is(faults(@lines), '', "each transaction has one end, over polls: $at") or diag(join "\n", map { JSON::encode_json($_) } @lines);
        $poller->wait_row($last);
        $poller->ack_received;

        # A new client receives its backlog, and the ends of it.
        my $new = $relay->client('u1', %ends);
        $last = last_transaction();
        wait_end($new, $last);
        cmp_ok(scalar(grep { $_->{t} eq 'msg' } lines($new)), '>', 5, "a new client receives its backlog: $at");
        is(faults(lines($new)), '', "each transaction of a backlog has one end: $at");
        $new->ack_received;

        # A client that resumes from each of its cursors.
        sql('BEGIN; ' . join('; ', map { "INSERT INTO t VALUES ($_, 'u1'); INSERT INTO everyone VALUES ($_)" } map { ++$id } 1 .. 3) . '; COMMIT');
        my $x = x_of($client->wait_row($id));
        $client->wait_for(sub { $_[0]{t} eq 'end' && $_[0]{x} eq $x });
        my @delivered = grep { ($_->{x} // '') eq $x } lines($client);
        for my $from ([ 'before the last notification', $delivered[-3] ], [ 'from the last notification', $delivered[-2] ], [ 'from the end', $delivered[-1] ])
        {
            my $resumed = $relay->client('u1', %ends, pos => $from->[1]{pos});
            $last = last_transaction();
            wait_end($resumed, $last);
            my @got = grep { ($_->{x} // '') eq $x } lines($resumed);
            my %expected = ('before the last notification' => 'msg end', 'from the last notification' => 'end', 'from the end' => '');
            is(join(' ', map { $_->{t} } @got), $expected{ $from->[0] }, "resumed $from->[0]: $at");
            is($resumed->gaps, '', "no gap, resumed $from->[0]: $at");
        }
        $_->ack_received, $_->close for $plain, $client, $narrow, $other, $poller, $new;
        sql('TRUNCATE t, acked, grouped, everyone');
    }
    $_->stop for $second, $first;
    sql("SELECT pg_drop_replication_slot('$slot')");
}
done_testing();
