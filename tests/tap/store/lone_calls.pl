# Tests the functions at the beginning of scripts that do the most frequent call alone (lone_notification.lua, lone_ack.lua,
# lone_report.lua): each does what the whole script would do, or nothing. Each random case is called twice, without the
# function too, on the same contents of the store.
#
# CLAIRON_SCRIPTS_SEED=n repeats a run.
use strict;
use warnings;

use Clairon::Test qw(script_text amount);
use JSON ();
use Test::More;

my $SEED = $ENV{CLAIRON_SCRIPTS_SEED} // int(rand(1_000_000));
srand $SEED;
note "seed $SEED";

my ($STREAM, $PROGRESS) = ('c:stream', 'c:progress:s');
my $store = Clairon::Test::store();
my %script = map { $_ => script_text($_) } qw(hello acquire ingest ack report);

sub one_of   { return $_[ rand @_ ] }
sub position { return sprintf '%016x%016x', @_ }
sub lsn_text { return sprintf '%016x', $_[0] }
sub uuid     { return sprintf '%08x-0000-8000-8000-%012x', @_ }
sub run_script { my ($name, $keys, @args) = @_; return $store->execute('EVAL', $script{$name}, scalar @$keys, @$keys, @args) }

# Returns what the store contains, without the times and random numbers that differ between two runs.
sub contents
{
    my %read = (stream => [ 'XRANGE', '-', '+' ], hash => ['HGETALL'], zset => [ 'ZRANGE', 0, -1, 'WITHSCORES' ], string => ['GET'], list => [ 'LRANGE', 0, -1 ]);
    my @keys = sort @{ $store->execute('KEYS', '*') };
    my %contents = map {
        my $type = $store->execute('TYPE', $_);
        my ($command, @range) = @{ $read{$type} };
        my $read = $store->execute($command, $_, @range);
        ($_ => [ $type eq 'hash' ? {@$read} : $read, $store->execute('PTTL', $_) < 0 ? 'stays' : 'expires' ]);
    } @keys;
    delete $contents{'c:meta'}[0]{history} if $contents{'c:meta'};
    $contents{pending} = $store->execute('XPENDING', $STREAM, 'clairon', '-', '+', 10) if $store->execute('TYPE', $STREAM) eq 'stream';
    return JSON->new->canonical->encode(\%contents) =~ s/\b1[5-9]\d{11}(?:- *\d+)?\b/TIME/gr =~ s/"relay","\d+"/"relay"/gr;
}

# Calls a script after each of the random cases, with and without its function `store_lone_..`. `prepare` writes the contents
# and returns a function that calls a text of the script.
sub compare
{
    my ($name, $function, @cases) = @_;
    my $whole = $script{$name} =~ s/^local reply = \Kstore_$function\(\)$/nil/mr;
    isnt($whole, $script{$name}, "$name begins with $function");
    my $lone = $script{$name} =~ s/^if reply then return reply end$/if reply then redis.call('SET', 'lone', 1) return reply end/mr;
    my ($count, @differences) = (0);
    for my $case (0 .. $#cases)
    {
        my @results = map {
            $store->execute('FLUSHALL');
            my ($keys, @args) = $cases[$case]->();
            my $reply = eval { $store->execute('EVAL', $_, scalar @$keys, @$keys, @args) } // $@ =~ s/script: .*|line: \d+|:\d+://gr;
            $count += $store->execute('DEL', 'lone');
            JSON->new->allow_nonref->encode($reply) =~ s/\b1[5-9]\d{11}-\d+\b/TIME/gr . ' ' . contents();
        } $lone, $whole;
        my ($same) = ($results[0] ^ $results[1]) =~ /^(\0*)/;
        push @differences, join ' ', "case $case:", map { substr $_, length $same } @results if $results[0] ne $results[1];
    }
    is_deeply(\@differences, [], "$function does what the whole script does");
    note "$count of " . @cases . ' calls';
    cmp_ok($count, '>', @cases / 40, "$function does many calls");
    return;
}

my $CASES = amount(400, 5000);

# ---- ingest

sub batch
{
    my ($case) = @_;
    my $is = one_of(qw(usual other_owner other_epoch behind stored copying first partial string undecodable large longer bare empty));
    my $route = "\0" x 7 . ($is eq 'undecodable' ? "\4" : "\0") . "\1" x 106;
    my @record = ('N', position($is eq 'stored' ? 1 : 5, 1), uuid($case, 0), $route, 'x' x ($is eq 'large' ? 65536 - 114 : one_of(1, 65535 - 114)));
    my @commit = $is eq 'bare' ? () : ('C', position(5, 9), $is eq 'longer' ? ('C', position(6, 9)) : ());
    my $after = $is eq 'other_owner' ? '' : position($is eq 'behind' ? 3 : one_of(1, 2), 1);
    my @arguments = ($is eq 'other_owner' ? 'four' : 'five', $after, one_of('', map { lsn_text($_) } 1, 5), one_of('', '1:2.3'), 1000, '', $is eq 'empty' ? () : (@record, @commit));
    return sub {
        my ($epoch) = @{ run_script('hello', [$STREAM], 'c', 'e' x 16, '', '0-0', 1, 1) };
        run_script('acquire', [$PROGRESS], 'five', 'ours', 1, '', 16, 'db');
        $store->execute('HSET', $PROGRESS, 'position:five', position(2, 1), 'read:five', lsn_text(2), $is eq 'partial' ? ('partial:five', 1) : ());
        $store->execute('HDEL', 'c:meta', 'copying') if $is ne 'copying';
        $store->execute('HSET', 'c:meta', 'copying', 1) if $is eq 'copying';
        $store->execute('HSET', 'c:meta', 'first', '1-1') if $is ne 'first';
        if ($is eq 'string') { $store->execute('DEL', $STREAM); $store->execute('SET', $STREAM, 1) }
        return ([ $STREAM, $PROGRESS ], 'c', $is eq 'other_epoch' ? 'f' x 16 : $epoch, @arguments);
    };
}
compare('ingest', 'lone_notification', map { batch($_) } 1 .. $CASES);

# ---- acks and reports

# Returns a function that stores one notification, pending for u1 and perhaps others, in one of many states.
sub stored
{
    my ($case) = @_;
    my $id     = uuid($case, int rand 65536);
    my $entry  = '1800000000001-' . one_of(0, 1023);
    my $others   = one_of((0) x 6, 1, 2);
    my $receipts = one_of(('') x 12, ' cn', ' cu', ' cue', ' cn iorigin {}', ' cu iorigin {}', ' cu iorigin {} d1799999999999');
    my $value = "$entry " . ($others + 1) . one_of(' bE', ' bE', ' bE', ' bL', ' bC', ' b-') . one_of(('') x 3, ' t1500') . one_of(('') x 10, ' a', ' l') . one_of(('') x 9, ' r') .
        one_of(('') x 9, ' x') . one_of(('') x 9, ' o86400000') . one_of(('') x 4, ' w17') . $receipts . one_of(('') x 9, ' q1', ' 7');
    my $state = one_of((0) x 9, 1799999999999, '');
    my $is    = one_of(('usual') x 9, qw(none unlisted unknown long mark traced many));
    my ($score) = map { my ($ms, $seq) = split /-/; $ms * 1024 + $seq } $entry;
    my @relays = @{ one_of([], ['r1'], ['r1'], ['r2'], [ 'r1', 'r2' ], [ 'r1', 'r2', 'r3' ]) };
    my ($retries, $due) = (one_of('', '0', '2', '2+', 'given up'), one_of('', '1799999999999.25', '1900000000000'));
    return $id, sub {
        $store->execute('XADD', $STREAM, $entry, id => $id, route => "\0" x 7 . "\1" x 106, data => '{}');
        $store->execute('XGROUP', 'CREATE', $STREAM, 'clairon', 0);
        $store->execute('XREADGROUP', 'GROUP', 'clairon', 'relay', 'STREAMS', $STREAM, '>');
        $store->execute('HSET', 'c:pending', $id, $value) if $is ne 'none';
        $store->execute('HSET', "c:ack:$id", $state eq '' ? () : (u1 => $state), map { ("o$_" => 0) } 0 .. $others);
        $store->execute('ZADD', $value =~ / l/ ? 'c:shared_pending_list' : 'c:pending_list:u1', $score, $id) if $is ne 'unlisted';
        $store->execute('ZADD', 'c:relays', 1, $_) for @relays;
        $store->execute('HSET', "c:retries:$id", u1 => $retries) if $retries ne '';
        $store->execute('ZADD', 'c:due', $due, "$id:u1") if $due ne '';
        $store->execute('HSET', 'c:ended', u1 => '1700000000000-0' . ($is eq 'long' ? ' 1700000000001-1' x 127 : ' 1700000000001-1') . ($is eq 'mark' ? '!' : '')) if $is ne 'unknown';
        $store->execute('RPUSH', "c:trace:$id", ("stored 1700000000000 0 $entry -") x ($is eq 'many' ? 512 : 1)) if $is eq 'traced' || $is eq 'many';
        return;
    };
}

sub ack
{
    my ($id, $prepare) = stored($_[0]);
    my @ids = @{ one_of([$id], [$id], [$id], [$id], [ uuid(0, 0) ], [ $id, uuid(0, 0) ], [ $id, $id ]) };
    my @arguments = one_of(('one') x 9, 'two') eq 'two' ? (2, 'u1', 1, 'o0', 1, $id, $id) : (1, 'u1', scalar @ids, @ids);
    return sub { $prepare->(); return ([$STREAM], 'c', 'r1', 60000, @arguments) };
}
compare('ack', 'lone_ack', map { ack($_) } 1 .. $CASES);

sub report
{
    my ($id, $prepare) = stored($_[0]);
    my @first = (one_of(('Sconn 0') x 8, 'Sconn 2', 'S', 'Sconn', 'Uconn', 'K', 'Q1800000000001-0'), 'u1', one_of(($id) x 9, uuid(0, 0)));
    my @second = one_of(('one') x 9, 'two') eq 'two' ? ('Sconn 0', 'o0', $id) : ();
    return sub { $prepare->(); return ([$STREAM], 'c', 30000, 1000, 60000, 60000, @first, @second) };
}
compare('report', 'lone_report', map { report($_) } 1 .. $CASES);

done_testing();
