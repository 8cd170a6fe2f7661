# Tests that a role with only the relay's privileges receives all changes through a walsender in both modes, and that a
# second read returns the same changes.
use strict;
use warnings;

use Clairon::Test;
use JSON ();
use PostgreSQL::Test::Utils qw(slurp_file run_log);
use Test::More;

my $pg = Clairon::Test::postgresql('main', conf => 'max_prepared_transactions = 5');
my $connection = $pg->connstr('postgres') . ' user=relay';
my $folder     = PostgreSQL::Test::Utils::tempdir();
my $files      = 0;

sub sql { return $pg->safe_psql('postgres', $_[0]) }

# Returns the slot's output from its confirmed position to now. A client confirms when it ends, so without `confirm` the
# test reads a copy of the slot.
sub receive
{
    my ($slot, $options, %how) = @_;
    my $file = "$folder/" . ++$files;
    if (!$how{confirm})
    {
        sql("SELECT pg_copy_logical_replication_slot('$slot', 'copy_$files')");
        $slot = "copy_$files";
    }
    my $end  = sql('SELECT pg_current_wal_flush_lsn()');
    my $done = run_log([ 'pg_recvlogical', '-d', $connection, '--slot', $slot, '--start', '--no-loop',
            '--endpos', $end, '-f', $file, map { ('-o', $_) } @$options ]);
    ok($done, "$slot is read with @$options");
    sql("SELECT pg_drop_replication_slot('$slot')") unless $how{confirm};
    return slurp_file($file);
}

# Returns the complete frames. A CopyData message may contain several frames; pg_recvlogical adds a line feed after each
# message.
sub frames
{
    my ($bytes) = @_;
    my @frames;
    while (length $bytes)
    {
        $bytes =~ s/^\n//, next if substr($bytes, 0, 1) eq "\n";
        my ($length, $kind, $version, $flags, $lsn, $ordinal) = unpack 'NaCnQ>Q>', $bytes;
        die 'broken frame' if $version != 1 || $length > length $bytes;
        my %frame = (kind => $kind, flags => $flags, position => substr($bytes, 8, 16));
        if ($kind eq 'N')
        {
            my ($audience_len, $topic_len, $targets_len, $rule_len) = unpack '@64 n n N @92 n', $bytes;
            my $at = 104 + $audience_len + $topic_len + $rule_len;
            $frame{audience} = substr $bytes, 104, $audience_len;
            $frame{topic}    = substr $bytes, 104 + $audience_len, $topic_len;
            $frame{targets}  = [ unpack '(n/a)*', substr $bytes, $at, $targets_len ];
            $frame{note}     = JSON::decode_json(substr $bytes, $at + $targets_len,
                $length - $at - $targets_len);
        }
        push @frames, \%frame;
        substr $bytes, 0, $length, '';
    }
    return @frames;
}

ok(run_log([ 'pg_recvlogical', '-d', $connection, '--slot', $_, '--create-slot', '-P', 'clairon' ]),
    "the role creates slot $_") for qw(text framed);

sql(<<'SQL');
CREATE TABLE t (id int PRIMARY KEY, who text, v timestamptz, d interval);
SELECT clairon.watch('t', 'USER', 'who', ack_required => true);
GRANT SELECT ON t TO relay;
CREATE TABLE hidden (id int PRIMARY KEY);
INSERT INTO hidden VALUES (1);
ALTER DATABASE postgres SET timezone = 'Asia/Kolkata';
ALTER ROLE relay SET intervalstyle = 'postgres_verbose';
ALTER ROLE relay SET datestyle = 'German';
INSERT INTO t VALUES (1, 'u1', '2025-03-05 12:00:00+01', '1 day');
INSERT INTO clairon.member VALUES ('STRUCTURE', 's1', 'u1');
SELECT clairon.notify('STRUCTURE', '{s1}', '{"hello": "there"}');
SQL

my @lines  = split /\n/, receive('text', ['topic_prefix=srv']);
my @frames = frames(receive('framed', [ 'mode=framed', 'topic_prefix=srv' ]));
is(scalar @lines, 2, 'text mode returns a line for each notification');
is(join('', map { $_->{kind} } @frames), 'NCMCNC', 'framed mode returns the frames of three transactions');
my @notifications = map { $_->{note} // () } @frames;
is_deeply([ map { JSON::decode_json($_) } @lines ], \@notifications, 'both modes have the same content');
is_deeply($frames[0]{targets}, ['u1'], 'the frame header has the target');
is($frames[0]{topic}, 'srv.t', 'the frame header has the topic');
is($frames[0]{flags}, 3, 'the frame header has the flag ack_required');
is_deeply($notifications[0]{payload}{after},
    { id => 1, who => 'u1', v => '2025-03-05T11:00:00Z', d => 'P1D' },
    'settings of the database and the role have no effect');
my @positions = map { $_->{position} } @frames;
is_deeply(\@positions, [ sort @positions ], 'positions increase');

is_deeply([ frames(receive('framed', [ 'mode=framed', 'topic_prefix=srv' ])) ], \@frames,
    'another slot returns the same ids and positions');
$pg->stop('immediate');
$pg->start;
is_deeply([ frames(receive('framed', [ 'mode=framed', 'topic_prefix=srv' ])) ], \@frames,
    'the frames are unchanged after a crash');
my @all = frames(receive('framed', [ 'mode=framed', 'include_tables=*' ]));
my %ids = map { $_->{note}{metadata}{id} => 1 } grep { $_->{note} } @all;
is(scalar(grep { $ids{ $_->{metadata}{id} } } @notifications), 2, 'other options do not change ids');
is(scalar(keys %ids), 3, 'the added rule has a different id');
sql('GRANT SELECT ON hidden TO relay; INSERT INTO hidden VALUES (2)');
sql('REVOKE SELECT ON hidden FROM relay; INSERT INTO hidden VALUES (3)');
my @listed = grep { /"source":"hidden"/ } split /\n/, receive('text', ['include_tables=public.hidden']);
is(join(' ', map { /"after":(\{.*?\})/ } @listed), '{"id":2}', 'include_tables shows a change if the role may read its table at that time');
receive('framed', ['mode=framed'], confirm => 1);
is(receive('framed', ['mode=framed']), '', 'confirmed changes are not sent again');

# Prepared transactions are sent at COMMIT PREPARED, even on a two-phase slot.
sql(q{SELECT pg_create_logical_replication_slot('two_phase', 'clairon', false, true)});
sql(q{BEGIN; INSERT INTO t VALUES (2, 'u2'); PREPARE TRANSACTION 'p'});
is(receive($_, ['mode=framed'], confirm => 1), '', "$_ returns nothing at PREPARE") for qw(framed two_phase);
sql(q{COMMIT PREPARED 'p'});
sql(q{BEGIN; INSERT INTO t VALUES (3, 'u3'); PREPARE TRANSACTION 'p'});
sql(q{ROLLBACK PREPARED 'p'});
for my $slot (qw(framed two_phase))
{
    my @prepared = frames(receive($slot, ['mode=framed']));
    is(join('', map { $_->{kind} } @prepared), 'NC', "$slot returns one notification at COMMIT PREPARED");
    is($prepared[0]{note}{payload}{after}{id}, 2, 'the notification has the committed row');
}

# A large transaction, which is spilled to disk, is returned completely.
receive('framed', ['mode=framed'], confirm => 1);
$pg->append_conf('postgresql.conf', 'logical_decoding_work_mem = 64kB');
$pg->reload;
sql(q{INSERT INTO t SELECT i, 'u' || i FROM generate_series(1000, 20999) AS i});
my @many = frames(receive('framed', ['mode=framed']));
is(scalar(@many), 20001, 'all rows of a large transaction and its commit are returned');
my %seen = map { $_->{note}{metadata}{id} => 1 } grep { $_->{note} } @many;
is(scalar(keys %seen), 20000, 'each row has a distinct id');

# A read by SQL decodes all changes in one transaction, regardless of its duration. The first query of pg_recvlogical is
# faster than this timeout even on a busy machine; reading the rows always takes longer.
sql(q{INSERT INTO t SELECT i, 'u' || i FROM generate_series(21000, 120999) AS i});
sql(q{ALTER ROLE relay SET transaction_timeout = '100ms'}) if Clairon::Test::pg_major() >= 17;
@lines = split /\n/, receive('framed', [ 'mode=text', 'streaming=false' ]);
is(scalar(@lines), 120000, 'a read that takes longer than transaction_timeout returns all rows');

done_testing();
